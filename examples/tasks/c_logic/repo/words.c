#include <ctype.h>
#include <stddef.h>

/* How many words a text has. Words are separated by any amount of white space. */
size_t count_words(const char *text)
{
    size_t words = *text != '\0';
    for (; *text != '\0'; text++)
        if (isspace((unsigned char)*text))
            words++;
    return words;
}
