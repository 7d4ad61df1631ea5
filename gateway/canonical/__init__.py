"""What makes two prompts the same prompt: the canonical form and the digest chain over it."""
