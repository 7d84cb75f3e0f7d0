/* SPDX-License-Identifier: Apache-2.0 */
/*
 * keys.c - the keys of a rules text: a table with one row per key, and functions that read values.
 */
#include <stdio.h>
#include <string.h>

#include "rules/reader.h"
#include "rules/sizes.h"

/* ---- values --------------------------------------------------------------------------------- */

bool st_text_is(struct st_text text, const char *word)
{
    return strlen(word) == text.len && st_word_equal(text.at, word, text.len);
}

static bool read_number(struct st_reader *reader, struct st_text text, uint64_t lo, uint64_t hi,
                        uint64_t *out)
{
    uint64_t value = 0;

    for (size_t i = 0; i < text.len; i++) {
        if (text.at[i] < '0' || text.at[i] > '9' || value > hi)
            value = UINT64_MAX / 16;
        else
            value = value * 10 + (uint64_t)(text.at[i] - '0');
    }
    if (text.len == 0 || value < lo || value > hi)
        return st_reader_fail(reader, text.at, "\"%.*s\" is not a number from %llu to %llu",
                              ST_SHOWN(text),
                              (unsigned long long)lo, (unsigned long long)hi);
    *out = value;
    return true;
}

/* Read "2.28.9" or "2.28". A missing patch number counts as 0 at the low end of a span, and as 99
 * at the high end (${high}). */
static bool read_release(struct st_reader *reader, struct st_text text, bool high, uint64_t *out)
{
    struct st_text rest = text, part[3] = {{0}};
    uint64_t value[3] = {0, 0, high ? 99 : 0};
    int parts = 0;

    while (rest.len && parts < 3)
        part[parts++] = st_text_cut(&rest, '.');
    if (parts < 2 || rest.len || text.at[text.len - 1] == '.')
        return st_reader_fail(reader, text.at,
                              "\"%.*s\" is not an NCCL release; write 2.28 or 2.28.9",
                              ST_SHOWN(text));
    for (int i = 0; i < parts; i++)
        if (!read_number(reader, part[i], 0, 99, &value[i]))
            return false;
    *out = value[0] * 10000 + value[1] * 100 + value[2];
    return true;
}

static bool read_bytes(struct st_reader *reader, struct st_text text, bool high, uint64_t *out)
{
    const char *wrong = st_size_read(text.at, text.len, out);

    (void)high;
    return !wrong || st_reader_fail(reader, text.at, "\"%.*s\": %s",
                                    ST_SHOWN(text), wrong);
}

static bool read_count(struct st_reader *reader, struct st_text text, bool high, uint64_t *out)
{
    (void)high;
    return read_number(reader, text, 0, 1u << 30, out);
}

/* Read a span: A..B, A.., ..B, or A alone. Both ends are included. ${read_end} reads one end. */
static bool read_span(struct st_reader *reader, struct st_text text, struct st_span *out,
                      bool (*read_end)(struct st_reader *, struct st_text, bool, uint64_t *))
{
    struct st_span span = {0, UINT64_MAX};
    struct st_text lo = text, hi = text;

    for (size_t i = 0; i + 1 < text.len; i++)
        if (text.at[i] == '.' && text.at[i + 1] == '.') {
            lo = st_text_trim((struct st_text){text.at, i});
            hi = st_text_trim((struct st_text){text.at + i + 2, text.len - i - 2});
            break;
        }
    if (text.len == 2 && lo.len == 0 && hi.len == 0)
        return st_reader_fail(reader, text.at, "\"..\" needs a number on one side");
    if (lo.len && !read_end(reader, lo, false, &span.lo))
        return false;
    if (hi.len && !read_end(reader, hi, true, &span.hi))
        return false;
    if (text.len == 0 || span.lo > span.hi)
        return st_reader_fail(reader, text.at, text.len ? "the range \"%.*s\" is empty: its low "
                              "end is above its high end" : "a value is missing%.*s",
                              ST_SHOWN(text));
    *out = span;
    return true;
}

/* Read "ring/ll128", "ring" or "nvls/ *" into ${*algo} and ${*proto}; -1 stands for any. */
static bool read_pair(struct st_reader *reader, struct st_text text, int *algo, int *proto)
{
    struct st_text rest = text, first = st_text_cut(&rest, '/');

    *algo = st_text_is(first, "*") ? -1 : st_word_find(&st_algos, first.at, first.len);
    if (*algo < 0 && !st_text_is(first, "*"))
        return st_reader_unknown(reader, "algorithm", first, &st_algos);
    rest = st_text_trim(rest);
    *proto = rest.len == 0 || st_text_is(rest, "*")
                 ? -1
                 : st_word_find(&st_protos, rest.at, rest.len);
    if (*proto < 0 && rest.len && !st_text_is(rest, "*"))
        return st_reader_unknown(reader, "protocol", rest, &st_protos);
    return true;
}

static bool read_choice(struct st_reader *reader, const char *what, struct st_text value,
                        const struct st_words *words, int *out)
{
    *out = st_word_find(words, value.at, value.len);
    return *out >= 0 || st_reader_unknown(reader, what, value, words);
}

/* Refuse a list that ends in a comma. */
static bool read_list_end(struct st_reader *reader, struct st_text list)
{
    return list.at[list.len - 1] != ',' ||
           st_reader_fail(reader, list.at + list.len - 1, "nothing follows the last comma");
}

/* Read a list of words and set a bit in ${*set} for each. "any" changes nothing, because all bits
 * of the set are set beforehand. */
static bool read_set(struct st_reader *reader, const char *what, struct st_text value,
                     const struct st_words *words, unsigned *set)
{
    if (st_text_is(value, "any"))
        return true;
    if (!read_list_end(reader, value))
        return false;
    *set = 0;
    do {
        int number;

        if (!read_choice(reader, what, st_text_cut(&value, ','), words, &number))
            return false;
        *set |= 1u << number;
    } while (value.len);
    return true;
}

/* ---- keys ----------------------------------------------------------------------------------- */

static bool key_coll(struct st_reader *reader, struct st_rule *rule, struct st_text value,
                     const struct st_key *key)
{
    return read_set(reader, "collective", value, key->words, &rule->colls);
}

static bool key_kernel_colls(struct st_reader *reader, struct st_rule *rule, struct st_text value,
                             const struct st_key *key)
{
    rule->kernel_colls = (1u << key->words->count) - 1;
    return read_set(reader, "collective", value, key->words, &rule->kernel_colls);
}

/* Return the address of the rule's member that this key sets. */
static void *member(struct st_rule *rule, const struct st_key *key)
{
    return (char *)rule + key->offset;
}

/* Read "bytes" or "bytes-per-rank". Both keys set the rule's ${bytes}. "bytes-per-rank" also sets
 * the flag ${per_rank}, which says that the bytes are those of one rank. */
static bool key_bytes(struct st_reader *reader, struct st_rule *rule, struct st_text value,
                      const struct st_key *key)
{
    if (rule->per_rank || rule->bytes.lo != 0 || rule->bytes.hi != UINT64_MAX)
        return st_reader_fail(reader, value.at, "bytes and bytes-per-rank exclude each other");
    if (key->type == ST_KEY_BOOL)
        *(bool *)member(rule, key) = true;
    return read_span(reader, value, &rule->bytes, read_bytes);
}

static bool key_counts(struct st_reader *reader, struct st_rule *rule, struct st_text value,
                       const struct st_key *key)
{
    return read_span(reader, value, member(rule, key), read_count);
}

static bool key_nccl(struct st_reader *reader, struct st_rule *rule, struct st_text value,
                     const struct st_key *key)
{
    return read_span(reader, value, member(rule, key), read_release);
}

/* Read one of the key's words and store its index. The last word, "any" or "leave", is stored as
 * -1. */
static bool key_word(struct st_reader *reader, struct st_rule *rule, struct st_text value,
                     const struct st_key *key)
{
    int choice;

    if (!read_choice(reader, "value", value, key->words, &choice))
        return false;
    *(int *)member(rule, key) = choice == key->words->count - 1 ? -1 : choice;
    return true;
}

/* Read a number from ${lo} to ${hi}, or "leave", which is stored as 0. */
static bool read_or_leave(struct st_reader *reader, struct st_text value, uint64_t lo, uint64_t hi,
                          int *out)
{
    uint64_t number = 0;

    if (!st_text_is(value, "leave") && !read_number(reader, value, lo, hi, &number))
        return false;
    *out = (int)number;
    return true;
}

/* Read a count of 1..64, or "leave". NCCL has at most 64 channels and CTAs. */
static bool key_ctas(struct st_reader *reader, struct st_rule *rule, struct st_text value,
                     const struct st_key *key)
{
    return read_or_leave(reader, value, 1, 64, member(rule, key));
}

static bool key_gpu(struct st_reader *reader, struct st_rule *rule, struct st_text value,
                     const struct st_key *key)
{
    (void)key;
    if (value.len == 0 || value.len > SYMTUNER_GPU_MAX)
        return st_reader_fail(reader, value.at, "a GPU name has 1 to %d bytes", SYMTUNER_GPU_MAX);
    memcpy(rule->gpu, value.at, value.len);
    return true;
}

static bool key_registered(struct st_reader *reader, struct st_rule *rule, struct st_text value,
                     const struct st_key *key)
{
    static const unsigned meaning[] = {ST_REG_NO, ST_REG_YES, ST_REG_ANY};
    int choice;

    if (!read_choice(reader, "answer", value, key->words, &choice))
        return false;
    rule->reg = meaning[choice];
    return true;
}

/* Is ${value} right after "general:", as ring/ll is? Writes no error. */
static bool is_pair(struct st_text value)
{
    struct st_reader silent = {.name = ""};
    int algo = -1, proto = -1;

    return read_pair(&silent, value, &algo, &proto) && (algo >= 0 || proto >= 0);
}

static bool key_prefer(struct st_reader *reader, struct st_rule *rule, struct st_text value,
                     const struct st_key *key)
{
    static const char *const word[] = {"leave", "symmetric", "general"};
    static const struct st_words words = {word, 3};
    struct st_text pair = value, kind = st_text_cut(&pair, ':');
    int choice;

    (void)key;
    if (st_text_is(kind, "registered"))
        return st_reader_fail(reader, kind.at, "\"registered\" is gone from prefer: write "
                                               "general:*/simple, which is the same");
    if (is_pair(value))
        return st_reader_fail(reader, value.at,
                              "unknown preference \"%.*s\"; write \"general:%.*s\"",
                              ST_SHOWN(value), ST_SHOWN(value));
    if (!read_choice(reader, "preference", kind, &words, &choice))
        return false;
    rule->act.prefer = (enum symtuner_prefer)choice;
    if (choice == SYMTUNER_GENERAL) {
        pair = st_text_trim(pair);
        if (pair.len == 0)
            return st_reader_fail(reader, value.at, "\"general\" needs an algorithm or protocol; "
                                                    "write general:ring/ll128");
        if (!read_pair(reader, pair, &rule->act.algo, &rule->act.proto))
            return false;
        return (rule->act.algo >= 0 || rule->act.proto >= 0) ||
               st_reader_fail(reader, pair.at, "\"*/*\" names nothing; write prefer = leave");
    }
    return kind.len == value.len ||
           st_reader_fail(reader, kind.at + kind.len, "only \"general\" takes an algorithm");
}

static bool key_forbid(struct st_reader *reader, struct st_rule *rule, struct st_text value,
                     const struct st_key *key)
{
    const char *at = value.at;

    (void)key;
    if (!read_list_end(reader, value))
        return false;
    do {
        struct st_text word = st_text_cut(&value, ',');
        int algo, proto;

        if (!read_pair(reader, word, &algo, &proto))
            return false;
        for (int a = 0; a < SYMTUNER_ALGOS; a++)
            for (int p = 0; p < SYMTUNER_PROTOS; p++)
                if ((algo < 0 || algo == a) && (proto < 0 || proto == p))
                    rule->act.forbid |= 1u << (a * SYMTUNER_PROTOS + p);
    } while (value.len);
    return rule->act.forbid != (1u << (SYMTUNER_ALGOS * SYMTUNER_PROTOS)) - 1 ||
           st_reader_fail(reader, at, "everything is forbidden; leave NCCL something to run");
}

static bool key_set(struct st_reader *reader, struct st_rule *rule, struct st_text value,
                    const struct st_key *key)
{
    return read_set(reader, key->word, value, key->words, member(rule, key));
}

static bool key_kernel(struct st_reader *reader, struct st_rule *rule, struct st_text value,
                       const struct st_key *key)
{
    return st_text_is(value, "leave") ||
           read_choice(reader, "kernel", value, key->words, &rule->launch.kernel);
}

/* Read a number of blocks, or "leave". The kernel library reserves flags for 512 blocks. No GPU has
 * more multiprocessors than that. */
static bool key_blocks(struct st_reader *reader, struct st_rule *rule, struct st_text value,
                       const struct st_key *key)
{
    return read_or_leave(reader, value, 1, 512, member(rule, key));
}

static bool key_threads(struct st_reader *reader, struct st_rule *rule, struct st_text value,
                        const struct st_key *key)
{
    int *threads = member(rule, key);

    return read_or_leave(reader, value, 32, 1024, threads) &&
           (*threads % 32 == 0 ||
            st_reader_fail(reader, value.at, "%d threads: a block has whole warps of 32",
                           *threads));
}

static bool key_pieces(struct st_reader *reader, struct st_rule *rule, struct st_text value,
                       const struct st_key *key)
{
    uint64_t pieces;

    if (!read_number(reader, value, 0, 64, &pieces))
        return false;
    *(int *)member(rule, key) = (int)pieces;
    return true;
}

static bool key_made_by(struct st_reader *reader, struct st_rule *rule, struct st_text value,
                     const struct st_key *key)
{
    (void)reader, (void)rule, (void)value, (void)key; /* the value is a note for people */
    return true;
}

static const char *const yes_word[] = {"no", "yes", "any"};
static const char *const link_word[] = {"pcie", "nvlink", "any"};
static const char *const beside_word[] = {"unknown", "alone", "compute", "leave"};
static const struct st_words yes = {yes_word, 3}, link = {link_word, 3}, beside = {beside_word, 4};

#define MEMBER(name) (((struct st_rule *)0)->name)
#define PLACE(name)  offsetof(struct st_rule, name), sizeof(MEMBER(name))
#define AT(name)                                                                                   \
    _Generic(MEMBER(name), bool: ST_KEY_BOOL, unsigned: ST_KEY_BITS, int: ST_KEY_INTS,             \
             struct st_span: ST_KEY_SPAN, default: ST_KEY_TEXT), PLACE(name)
#define IF_SET(name) ST_KEY_SET_SPAN, PLACE(name)
#define BITS_SET(name) ST_KEY_SET_BITS, PLACE(name)
#define INT_SET(name) ST_KEY_SET_INT, PLACE(name)
#define PREFER       ST_KEY_INTS, offsetof(struct st_rule, act.prefer), 3 * sizeof(int)
_Static_assert(offsetof(struct st_action, proto) == offsetof(struct st_action, prefer) + 8,
               "prefer, algo and proto follow each other");
#define CALL         (ST_IN_RULE | ST_IN_KERNELS)
#define MACHINE      (CALL | ST_IN_PROCESS | ST_IN_PROVENANCE)
#define KEY(word, where, read, at, words) {word, where, read, at, words, 0, NULL}
/* The hash (rules/hash.c) depends on the order of these rows. */
const struct st_key st_keys[] = {
    KEY("coll", ST_IN_RULE, key_coll, AT(colls), &st_colls),
    KEY("bytes", CALL, key_bytes, AT(bytes), NULL),
    KEY("bytes-per-rank", ST_IN_RULE, key_bytes, AT(per_rank), NULL),
    KEY("ranks", CALL, key_counts, AT(ranks), NULL),
    KEY("nodes", ST_IN_RULE, key_counts, AT(nodes), NULL),
    KEY("pipe-ops", ST_IN_RULE, key_counts, AT(pipe_ops), NULL),
    KEY("nccl", MACHINE, key_nccl, AT(nccl), NULL),
    KEY("registered", CALL, key_registered, AT(reg), &yes),
    KEY("links", MACHINE, key_word, AT(links), &link),
    KEY("multicast", MACHINE, key_word, AT(multicast), &yes),
    KEY("prefer", ST_IN_RULE, key_prefer, PREFER, NULL),
    KEY("forbid", ST_IN_RULE, key_forbid, AT(act.forbid), NULL),
    {"sym-ctas", ST_IN_PROCESS, key_ctas, AT(act.sym_ctas), NULL, ST_IN_RULE,
     "NCCL reads the CTA count of symmetric kernels once per process; write it in [process]"},
    KEY("channels", ST_IN_RULE, key_ctas, AT(act.channels), NULL),
    {"chunk", 0, NULL, ST_KEY_GONE, 0, 0, NULL, ST_IN_RULE,
     "NCCL names the bytes of one channel where it asks for a chunk size, so that no rule can tell "
     "which call it is; remove the key"},
    KEY("gpu", MACHINE, key_gpu, AT(gpu), NULL),
    KEY("gpus", ST_IN_PROCESS | ST_IN_PROVENANCE, key_counts, IF_SET(gpus), NULL),
    KEY("dtype", ST_IN_KERNELS, key_set, AT(dtypes), &st_dtype_words),
    KEY("op", ST_IN_KERNELS, key_set, AT(ops), &st_op_words),
    KEY("kernel", ST_IN_KERNELS, key_kernel, AT(launch.kernel), &st_kernel_words),
    KEY("ctas", ST_IN_KERNELS, key_blocks, AT(launch.ctas), NULL),
    KEY("threads", ST_IN_KERNELS, key_threads, AT(launch.threads), NULL),
    KEY("beside", ST_IN_KERNELS, key_word, AT(launch.beside), &beside),
    KEY("when-beside", ST_IN_KERNELS, key_set, AT(besides), &st_beside_words),
    KEY("coll", ST_IN_KERNELS, key_kernel_colls, BITS_SET(kernel_colls), &st_kernel_coll_words),
    KEY("network-pieces", ST_IN_KERNELS, key_pieces, INT_SET(launch.network_pieces), NULL),
    {"made-by", ST_IN_PROVENANCE, key_made_by, ST_KEY_COMMENT, 0, 0, NULL, 0, NULL},
    {NULL, 0, NULL, ST_KEY_COMMENT, 0, 0, NULL, 0, NULL},
};
enum { KEYS = sizeof st_keys / sizeof *st_keys - 1 };
_Static_assert(KEYS <= 8 * sizeof(unsigned), "st_section.seen has a bit per key");

bool st_key_read(struct st_reader *reader, struct st_section *section, struct st_text key,
                 struct st_text value)
{
    static const char *const place[] = {[ST_IN_PROVENANCE] = "[provenance]",
                                        [ST_IN_PROCESS] = "[process]",
                                        [ST_IN_RULE] = "a rule",
                                        [ST_IN_KERNELS] = "[kernels]"};
    const char *word[KEYS];
    const struct st_words words = {word, KEYS};
    int k;

    for (int i = 0; i < KEYS; i++)
        word[i] = section->where & st_keys[i].where ? st_keys[i].word : NULL;
    k = st_word_find(&words, key.at, key.len);
    for (int i = 0; k < 0 && i < KEYS; i++) {
        if (!st_text_is(key, st_keys[i].word))
            continue;
        if (section->where & st_keys[i].gone_from)
            return st_reader_fail(reader, key.at, "\"%s\" is gone from %s: %s", st_keys[i].word,
                                  place[section->where], st_keys[i].cure);
        if (st_keys[i].where)
            return st_reader_fail(reader, key.at, "\"%s\" has no meaning in %s", st_keys[i].word,
                                  place[section->where]);
    }
    if (k < 0)
        return st_reader_unknown(reader, "key", key, &words);
    if (section->seen & 1u << k)
        return st_reader_fail(reader, key.at, "\"%s\" is given twice", st_keys[k].word);
    section->seen |= 1u << k;
    if (value.len >= 2 && value.at[0] == '"' && value.at[value.len - 1] == '"')
        value = st_text_trim((struct st_text){value.at + 1, value.len - 2});
    if (value.len == 0)
        return st_reader_fail(reader, value.at, "\"%s\" needs a value", st_keys[k].word);
    return st_keys[k].read(reader, section->rule, value, &st_keys[k]);
}
