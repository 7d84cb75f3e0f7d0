/* SPDX-License-Identifier: Apache-2.0 */
#include "nccl/names.h"

#include <string.h>

#include "symtuner.h"
#include "symtuner_why.h"

static const char *const coll_word[] = {"broadcast", "reduce", "allgather", "reducescatter",
                                        "allreduce"};
static const char *const algo_word[] = {
    "tree", "ring", "collnet_direct", "collnet_chain", "nvls", "nvls_tree", "pat"};
static const char *const proto_word[] = {"ll", "ll128", "simple"};
static const char *const dtype_word[] = {
#define X(name, number, size, text) [number] = text,
    SYMTUNER_DTYPE_MAP(X)
#undef X
};
static const char *const op_word[] = {
#define X(name, number, text) [number] = text,
    SYMTUNER_OP_MAP(X)
#undef X
};
static const char *const reg_word[] = {"none", "comm", "window", "sym"};
static const char *const kernel_word[] = {
    "nccl",        "one_ll8", "one_ll128",  "one_lamport", "two_ll8", "two_ll128",
    "two_lamport", "chunked", "pull",       "copy",        "nvls",    "pull_one",
    "nvls_one",    "tma",     "tma_staged", "engines",     "tma_ipc", "tma_engines"};
static const char *const kernel_coll_word[] = {"allreduce", "reducescatter", "allgather"};
static const char *const beside_word[] = {"unknown", "alone", "compute"};
static const char *const status_word[] = {"ok",           "out of memory", "cannot read",
                                          "syntax error", "other machine", "bad argument"};

#define WORDS(array)                                                                               \
    {                                                                                              \
        array, (int)(sizeof array / sizeof *array)                                                 \
    }
const struct st_words st_colls = WORDS(coll_word);
const struct st_words st_algos = WORDS(algo_word);
const struct st_words st_protos = WORDS(proto_word);
const struct st_words st_dtype_words = WORDS(dtype_word);
const struct st_words st_op_words = {op_word, SYMTUNER_PREMULSUM};
const struct st_words st_all_op_words = WORDS(op_word);
const struct st_words st_reg_words = WORDS(reg_word);
const struct st_words st_kernel_words = WORDS(kernel_word);
const struct st_words st_kernel_coll_words = WORDS(kernel_coll_word);
const struct st_words st_beside_words = WORDS(beside_word);
static const struct st_words statuses = WORDS(status_word);

static int small(char c)
{
    return c >= 'A' && c <= 'Z' ? c - 'A' + 'a' : c;
}

bool st_word_equal(const char *a, const char *b, size_t len)
{
    for (size_t i = 0; i < len; i++)
        if (small(a[i]) != small(b[i]))
            return false;
    return true;
}

int st_word_find(const struct st_words *words, const char *text, size_t len)
{
    for (int i = 0; i < words->count; i++)
        if (words->word[i] && strlen(words->word[i]) == len &&
            st_word_equal(words->word[i], text, len))
            return i;
    return -1;
}

bool st_word_listed(const char *list, const char *word,
                    int (*compare)(const char *, const char *, size_t))
{
    size_t length = strlen(word);

    for (;; list++) {
        size_t n = strcspn(list, "|");

        if (n == length && compare(list, word, n) == 0)
            return true;
        list += n;
        if (*list == '\0')
            return false;
    }
}

enum { NEAR_MAX = 32 }; /* no word that symtuner knows is longer */

int st_word_distance(const char *a, size_t na, const char *b, size_t nb)
{
    int row[3][NEAR_MAX + 1];

    if (na > NEAR_MAX || nb > NEAR_MAX)
        return NEAR_MAX;
    for (size_t j = 0; j <= nb; j++)
        row[0][j] = (int)j;
    for (size_t i = 1; i <= na; i++) {
        int *now = row[i % 3], *prev = row[(i + 2) % 3], *prev2 = row[(i + 1) % 3];

        now[0] = (int)i;
        for (size_t j = 1; j <= nb; j++) {
            int same = (a[i - 1] | 32) == (b[j - 1] | 32);
            int best = prev[j - 1] + !same;

            if (prev[j] + 1 < best)
                best = prev[j] + 1;
            if (now[j - 1] + 1 < best)
                best = now[j - 1] + 1;
            if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] &&
                prev2[j - 2] + 1 < best)
                best = prev2[j - 2] + 1;
            now[j] = best;
        }
    }
    return row[na % 3][nb];
}

/* Return how many edits (st_word_distance) ${text} may be away from ${word} so that we still take
 * it for a misspelling of ${word}: about one for every three letters. Letters up to the last "_" or
 * "-" that both share are not counted, so NCCL_ALGO may have as many wrong letters as ALGO. */
static int edits_allowed(const char *text, size_t len, const char *word)
{
    size_t head = 0;

    for (size_t i = 0; i < len && word[i] && (text[i] | 32) == (word[i] | 32); i++)
        if (text[i] == '_' || text[i] == '-')
            head = i + 1;
    len -= head;
    return len < 6 ? 1 : len < 9 ? 2 : 3;
}

const char *st_word_nearest(const struct st_words *words, const char *text, size_t len)
{
    const char *nearest = NULL;
    int best = 4;

    if (len == 0)
        return NULL;
    for (int i = 0; i < words->count; i++) {
        size_t n = words->word[i] ? strlen(words->word[i]) : 0;
        int distance = n ? st_word_distance(text, len, words->word[i], n) : best;

        if (distance < best && distance < (int)len &&
            distance <= edits_allowed(text, len, words->word[i])) {
            best = distance;
            nearest = words->word[i];
        }
    }
    return nearest;
}

static const char *name_of(const struct st_words *words, int number)
{
    return number >= 0 && number < words->count ? words->word[number] : NULL;
}

const char *symtuner_coll_name(int coll)
{
    return name_of(&st_colls, coll);
}

const char *symtuner_algo_name(int algo)
{
    return name_of(&st_algos, algo);
}

const char *symtuner_proto_name(int proto)
{
    return name_of(&st_protos, proto);
}

const char *symtuner_status_text(enum symtuner_status status)
{
    return name_of(&statuses, (int)status);
}

int symtuner_coll_parse(const char *text)
{
    return text ? st_word_find(&st_colls, text, strlen(text)) : -1;
}

int symtuner_algo_parse(const char *text)
{
    return text ? st_word_find(&st_algos, text, strlen(text)) : -1;
}

int symtuner_proto_parse(const char *text)
{
    return text ? st_word_find(&st_protos, text, strlen(text)) : -1;
}
