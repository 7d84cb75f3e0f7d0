/* SPDX-License-Identifier: Apache-2.0 */
/*
 * rules.h - rules in memory, after a rules text has been read.
 *
 * A rule is a set of conditions (all must hold) and an action. Three kinds of rules share struct
 * st_rule. A [rule] section is for calls. A [process] section only sets NCCL's CTA count. NCCL
 * reads this count once per process, so the conditions of a [process] section may name only the
 * machine and the release. A [kernels] section is for libsymtuner_ar.so; the plugin ignores it.
 *
 * Units      bytes; spans are inclusive on both ends.
 * Ownership  one allocation per symtuner_rules; freed with symtuner_rules_free.
 * Threads    rules never change after they have been read, so any thread may read them.
 * Errors     the reader writes "name:line:column: what; cure" and returns no rules.
 */
#ifndef ST_RULES_H_
#define ST_RULES_H_

#include <stdbool.h>

#include "base/hash.h"
#include "symtuner.h"

struct st_span {
    uint64_t lo, hi;
};

static inline bool st_span_has(struct st_span span, uint64_t value)
{
    return span.lo <= value && value <= span.hi;
}

struct st_action {
    enum symtuner_prefer prefer;
    int algo, proto; /* used if prefer is SYMTUNER_GENERAL; -1: any                            */
    uint32_t forbid; /* forbidden entries of the cost table: bit algo * 3 + proto              */
    int sym_ctas;    /* CTAs of symmetric kernels, 1..64; 0: NCCL decides; only in [process]   */
    int channels;    /* channels of general kernels, 1..64; 0: NCCL decides                    */
};

/* What a [kernels] rule does to a call of libsymtuner_ar.so. */
struct st_launch {
    int kernel;        /* index in st_kernel_words; -1: the library's own table decides        */
    int ctas, threads; /* largest number of blocks; threads per block; 0: the table decides    */
    int beside;        /* index in st_beside_words: what runs beside the kernels, whatever the
                          program says; -1: what the program says                              */
    /* Above 0: add up calls over several boxes box by box, in this many pieces. 0: NCCL runs these
     * calls. -1: this rule is for calls within a box. */
    int network_pieces;
};

enum { ST_REG_NO = 1, ST_REG_YES = 2, ST_REG_ANY = 3 };
enum { ST_SOURCES_MAX = 4 };

struct st_rule {
    char name[SYMTUNER_NAME_MAX + 1];
    int source, line;      /* index in symtuner_rules.source, and line number there       */
    bool process, kernels; /* a [process] or [kernels] section; neither: a [rule] section */
    unsigned colls;        /* one bit per collective                                      */
    struct st_span bytes;
    bool per_rank;         /* ${bytes} is the size of one rank's part                     */
    struct st_span ranks, nodes, pipe_ops, nccl;
    unsigned reg;          /* ST_REG_*: calls with registered buffers, others, or both    */
    int links;             /* links between GPUs: 1: nvlink, 0: pcie, -1: any             */
    int multicast;         /* multicast: 1: yes, 0: no, -1: any                           */
    char gpu[SYMTUNER_GPU_MAX + 1]; /* GPU's name, may have * and ?; "": any GPU          */
    struct st_span gpus;   /* number of GPUs in the box                                   */
    unsigned kernel_colls; /* [kernels] only: bit n is for word n of st_kernel_coll_words;
                              0: the rule has no key coll (st_kernels_colls)              */
    unsigned dtypes, ops;  /* [kernels] only: bit n is for NCCL's type n or operator n    */
    unsigned besides;      /* [kernels] only: one bit per word of st_beside_words         */
    struct st_action act;
    struct st_launch launch;
};

struct symtuner_rules {
    int count;
    bool has_provenance;
    struct st_rule provenance; /* the [provenance] section; it has only conditions */
    char source[ST_SOURCES_MAX][256];
    int sources;
    struct st_rule rule[SYMTUNER_RULES_MAX];
};

/* Return how many parts the bytes of a call have. An AllGather or ReduceScatter has one part per
 * rank. Other collectives have one part. */
static inline uint64_t st_coll_parts(int coll, int ranks)
{
    return coll == SYMTUNER_ALLGATHER || coll == SYMTUNER_REDUCESCATTER ? (uint64_t)ranks : 1;
}

/* Add the eight bytes of a value, or every character of a text, to a hash. */
uint64_t st_hash_value(uint64_t hash, uint64_t value);
uint64_t st_hash_text(uint64_t hash, const char *text);

/* Make ${rule} a rule that matches everything and does nothing. */
void st_rule_clear(struct st_rule *rule);

/* Are the rule's conditions on release and machine true? An unknown property of the machine matches
 * only "any". */
bool st_rule_fits(const struct st_rule *rule, int nccl, const struct symtuner_machine *machine);

/* Return the rule's span of sizes in bytes of the whole call (NCCL's nBytes). If the rule gives the
 * span in bytes of one rank, convert it. */
struct st_span st_rule_total_bytes(const struct st_rule *rule, int coll, int ranks);

/* Return the collectives that kernel number ${kernel} of st_kernel_words can run: one bit per word
 * of st_kernel_coll_words. -1 stands for any kernel. */
unsigned st_kernel_runs(int kernel);

/* Return the collectives that a [kernels] rule is for: one bit per word of st_kernel_coll_words. */
unsigned st_kernels_colls(const struct st_rule *rule);

/* st_kernels_concern: are a [kernels] rule's conditions on ranks, machine and release true? If the
 * ranks do not use NCCL, ${nccl} is 0, and every condition on the release counts as true.
 * st_kernels_cover: are the rule's conditions on the call true? ${coll} is an enum
 * st_kernel_coll. */
bool st_kernels_concern(const struct st_rule *rule, int nccl, int ranks,
                        const struct symtuner_machine *machine);
bool st_kernels_cover(const struct st_rule *rule, int coll, uint64_t bytes, int dtype, int op,
                      bool registered, int beside);

/* Return reason number ${n} (from 0) why a [kernels] rule cannot do what it says, whatever the
 * other rules are. Returns NULL if there is no such reason. */
const char *st_kernels_lint(const struct st_rule *rule, int n);

/* Append the rules of ${more} to ${rules}. If ${more} has a [provenance] section, it replaces that
 * of ${rules}. Returns false, and adds nothing, if there would be too many rules or sources. */
bool st_rules_append(symtuner_rules *rules, const symtuner_rules *more);

/* Return the first [process] rule that fits release and machine, or NULL. */
const struct st_rule *st_rules_process(const symtuner_rules *rules, int nccl,
                                       const struct symtuner_machine *machine);

#endif
