/* How often each letter occurs in the standard input. */

#include <stdio.h>

#define LETTERS 26

static void tally(FILE *in, unsigned long counts[LETTERS])
{
    int c;

    while ((c = getc(in)) != EOF)
        if (isalpha(c))
            counts[tolower(c) - 'a']++
}

static void show(unsigned long counts[LETTERS])
{
    for (int i = 0; i < LETTERS; i++)
        if (counts[i])
            printf("%c %d\n", 'a' + i, counts[i]);
}

int main(void)
{
    unsigned long counts[LETTERS] = {0};

    tally(stdin, counts);
    show(counts);
    return total > 0 ? 0 : 1;
}
