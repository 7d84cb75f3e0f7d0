/* SPDX-License-Identifier: Apache-2.0 */
/*
 * rules.h - rules in memory, after a rules text has been read.
 *
 * A rule is a set of conditions (all must hold) and an action. Three kinds share the struct: a rule
 * for calls; a [process] rule; and a [kernels] rule, which is for libsymtuner_ar.so and which the
 * plugin ignores. A [process] rule only sets NCCL's CTA count. NCCL reads this count once per
 * process, so the conditions of a [process] rule may name only the machine and the release.
 *
 * Units      bytes; spans are inclusive on both ends.
 * Ownership  one allocation per symtuner_rules; freed with symtuner_rules_free.
 * Threads    immutable once read.
 * Errors     the reader writes "name:line:column: what; cure" and allocates nothing.
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
    int algo, proto; /* for SYMTUNER_GENERAL; -1 any              */
    uint32_t forbid; /* bit algo * 3 + proto                      */
    int sym_ctas;    /* 1..64; 0: NCCL decides; in [process] only */
    int channels;    /* 1..64; 0: NCCL decides                    */
};

/* What a [kernels] rule does to an all-reduce of libsymtuner_ar.so. */
struct st_launch {
    int kernel;        /* in st_kernel_words; -1: the library's table decides    */
    int ctas, threads; /* most blocks; threads per block; 0: the table decides   */
    int beside;        /* in st_beside_words; -1: as the handle was told         */
    int network_pieces; /* over several boxes: add up in each box first, in so many pieces; 0: by
                           NCCL alone; -1: the rule is not for calls over several boxes */
};

enum { ST_REG_NO = 1, ST_REG_YES = 2, ST_REG_ANY = 3 };
enum { ST_SOURCES_MAX = 4 };

struct st_rule {
    char name[SYMTUNER_NAME_MAX + 1];
    int source, line;  /* where it was written                      */
    bool process, kernels; /* neither: for calls                        */
    unsigned colls;    /* bit per collective                        */
    struct st_span bytes;
    bool per_rank;     /* bytes are those of one rank               */
    struct st_span ranks, nodes, pipe_ops, nccl;
    unsigned reg;      /* ST_REG_*                                  */
    int links;         /* 1 nvlink, 0 pcie, -1 any                  */
    int multicast;     /* 1 yes, 0 no, -1 any                       */
    char gpu[SYMTUNER_GPU_MAX + 1]; /* pattern with *; "" any       */
    struct st_span gpus; /* of the box                              */
    unsigned dtypes, ops; /* [kernels] only: bit per NCCL number */
    unsigned besides;     /* [kernels] only: bit per word of st_beside_words */
    struct st_action act;
    struct st_launch launch;
};

struct symtuner_rules {
    int count;
    bool has_provenance;
    struct st_rule provenance; /* only conditions                   */
    char source[ST_SOURCES_MAX][256];
    int sources;
    struct st_rule rule[SYMTUNER_RULES_MAX];
};

/* Return NCCL's nBytes divided by the bytes of one rank's part: the number of ranks for AllGather
 * and ReduceScatter, 1 for other collectives. */
static inline uint64_t st_coll_parts(int coll, int ranks)
{
    return coll == SYMTUNER_ALLGATHER || coll == SYMTUNER_REDUCESCATTER ? (uint64_t)ranks : 1;
}

/* Add the eight bytes of a value, or every character of a text, to a hash. */
uint64_t st_hash_value(uint64_t hash, uint64_t value);
uint64_t st_hash_text(uint64_t hash, const char *text);

/* Set ${rule} to one that matches everything and does nothing. */
void st_rule_clear(struct st_rule *rule);

/* Do the rule's conditions on release and machine hold? If a property of the machine is unknown,
 * only "any" matches it. */
bool st_rule_fits(const struct st_rule *rule, int nccl, const struct symtuner_machine *machine);

/* Return the rule's span of sizes in bytes of the whole call (NCCL's nBytes), even if the rule
 * gives it in bytes of one rank. */
struct st_span st_rule_total_bytes(const struct st_rule *rule, int coll, int ranks);

/* st_kernels_concern: do the conditions of a [kernels] rule on the group of ranks hold?
 * st_kernels_cover: do the rule's conditions on the call hold? ${nccl} is 0 if the group does not
 * use NCCL; then every condition on the release holds. */
bool st_kernels_concern(const struct st_rule *rule, int nccl, int ranks,
                        const struct symtuner_machine *machine);
bool st_kernels_cover(const struct st_rule *rule, uint64_t bytes, int dtype, int op,
                      bool registered, int beside);

/* Return the ${n}-th reason why a [kernels] rule, looked at alone, cannot do what it says; NULL
 * past the last. */
const char *st_kernels_lint(const struct st_rule *rule, int n);

/* Append the rules of ${more} to ${rules}. If ${more} has a provenance, ${rules} gets it. Returns
 * false, and adds nothing, if there would be too many rules or sources. */
bool st_rules_append(symtuner_rules *rules, const symtuner_rules *more);

/* Return the first [process] rule that fits release and machine, or NULL. */
const struct st_rule *st_rules_process(const symtuner_rules *rules, int nccl,
                                       const struct symtuner_machine *machine);

#endif
