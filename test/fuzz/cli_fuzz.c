/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cli_fuzz.c - runs a command with wrong words and damaged files. The command may refuse them, but
 * must not crash.
 *
 *   cli_fuzz SYMTUNER DICTIONARY SAMPLE ROUNDS [SEED]
 *
 * Line 1 of DICTIONARY begins a command line, line 2 begins one that reads a file from stdin, every
 * further line is a word. Every second round runs line 1 and random words; the others run line 2
 * with a damaged copy of SAMPLE. The exit statuses 0, 1, 2 and 77 are right. If a sanitizer
 * (SAN=address,undefined) finds something, the command exits with 99. After any exit status that is
 * not right, or after 20 seconds, cli_fuzz prints the command line, writes the input to
 * cli_fuzz.input and exits with 1.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { WORDS_MAX = 512, ARGS_MAX = 48, FILE_MAX = 1 << 20, SECONDS = 20 };

static char *word[WORDS_MAX];
static int words;
static char sample[FILE_MAX], input[2 * FILE_MAX];
static size_t sample_size, input_size;
static uint64_t state;

static size_t draw(size_t below)
{
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return (size_t)(state >> 11) % below;
}

static int read_words(const char *path)
{
    static char line[4096];
    FILE *file = fopen(path, "r");

    while (file && words < WORDS_MAX && fgets(line, sizeof line, file)) {
        line[strcspn(line, "\n")] = '\0';
        word[words++] = strdup(line);
    }
    if (file)
        fclose(file);
    return words > 2;
}

static int read_sample(const char *path)
{
    FILE *file = fopen(path, "rb");

    if (file) {
        sample_size = fread(sample, 1, sizeof sample, file);
        fclose(file);
    }
    return sample_size > 0;
}

/* Copy the sample, and insert, delete, replace or cut something at a few random places. */
static void damage(void)
{
    static const char odd[] = "0123456789,.\"\n-xe[]=#\\\0\xff";

    memcpy(input, sample, sample_size);
    input_size = sample_size;
    for (size_t i = 1 + draw(6); i > 0 && input_size > 1; i--) {
        size_t at = draw(input_size), n = 1 + draw(40), kind = draw(10);

        if (kind < 4) {
            input[at] = odd[draw(sizeof odd)];
        } else if (kind < 6) {
            n = n > input_size - at ? input_size - at : n;
            memmove(input + at, input + at + n, input_size - at - n);
            input_size -= n;
        } else if (kind < 9 && input_size + n < sizeof input) {
            memmove(input + at + n, input + at, input_size - at);
            for (size_t k = 0; k < n; k++)
                input[at + k] = odd[draw(sizeof odd)];
            input_size += n;
        } else {
            input_size = at;
        }
    }
}

/* Split ${text} at spaces and append the words to the ${n} words in ${args}. Returns the new
 * count. */
static int add_args(char *text, char **args, int n)
{
    for (char *at = strtok(text, " "); at && n < ARGS_MAX - 1; at = strtok(NULL, " "))
        args[n++] = at;
    return n;
}

static int run(char **args, int with_input)
{
    FILE *file = tmpfile();
    int status;
    pid_t child;

    if (!file)
        return -1;
    if (with_input)
        fwrite(input, 1, input_size, file);
    rewind(file);
    fflush(NULL);
    child = fork();
    if (child == 0) {
        dup2(fileno(file), STDIN_FILENO);
        if (!freopen("/dev/null", "w", stdout) || !freopen("/dev/null", "w", stderr))
            _exit(98);
        setenv("ASAN_OPTIONS", "exitcode=99", 1);
        setenv("UBSAN_OPTIONS", "halt_on_error=1:exitcode=99", 1);
        alarm(SECONDS); /* the alarm stays set after exec, and ends a command that hangs */
        execv(args[0], args);
        _exit(98);
    }
    fclose(file);
    if (child < 0 || waitpid(child, &status, 0) != child)
        return -1;
    return WIFEXITED(status) ? WEXITSTATUS(status) : 256 + WTERMSIG(status);
}

int main(int argc, char **argv)
{
    int rounds = argc > 4 ? atoi(argv[4]) : 0;
    char begin[4096];

    if (rounds < 1 || !read_words(argv[2]) || !read_sample(argv[3])) {
        fprintf(stderr, "usage: cli_fuzz SYMTUNER DICTIONARY SAMPLE ROUNDS [SEED]\n");
        return 2;
    }
    state = 88172645463325252ull ^ (argc > 5 ? strtoull(argv[5], NULL, 10) * 2654435761u : 0);
    for (int round = 0; round < rounds; round++) {
        char *args[ARGS_MAX] = {argv[1]};
        int n, status;

        snprintf(begin, sizeof begin, "%s", word[round % 2]);
        n = add_args(begin, args, 1);
        if (round % 2)
            damage();
        else
            for (size_t i = draw(12); i > 0 && n < ARGS_MAX - 1; i--)
                args[n++] = word[2 + draw((size_t)words - 2)];
        args[n] = NULL;
        status = run(args, round % 2);
        if (status == 0 || status == 1 || status == 2 || status == 77)
            continue;
        printf("round %d, status %d:", round, status);
        for (int i = 0; i < n; i++)
            printf(" '%s'", args[i]);
        printf("\n");
        if (round % 2) {
            FILE *file = fopen("cli_fuzz.input", "wb");

            if (file) {
                fwrite(input, 1, input_size, file);
                fclose(file);
            }
        }
        return 1;
    }
    printf("cli_fuzz: %s: %d rounds, no crash\n", word[0], rounds);
    return 0;
}
