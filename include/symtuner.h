/* SPDX-License-Identifier: Apache-2.0 */
/*
 * symtuner.h - the rule engine of libsymtuner: loads rules, decides about a call, explains why.
 *
 * The plugin runs the same code inside NCCL: every decision is a pure function of rules and query,
 * so symtuner_decide returns what the plugin does. No function needs a GPU, NCCL or CUDA.
 *
 * Units      sizes are bytes; "bytes" is NCCL's nBytes: count x element size for AllReduce,
 *            Broadcast and Reduce, count x ranks x element size for AllGather and ReduceScatter
 *            (where count is per rank). Costs are microseconds, as NCCL predicts them.
 * Numbers    collectives, algorithms and protocols carry NCCL's own numbers; an NCCL release is
 *            major * 10000 + minor * 100 + patch, as ncclGetVersion gives it (2.28.9 is 22809).
 * Ownership  symtuner_rules_load, _load_csv, _parse and _inline give an object that the caller
 *            frees with symtuner_rules_free. Returned strings are static.
 * Threads    rules do not change once loaded, and any function may run on any thread;
 *            only symtuner_machine_find must run on one thread at a time.
 * Errors     functions that can fail return enum symtuner_status; texts go to the buffer that the
 *            caller gives and are always terminated. Outputs are written on success only. ${rules}
 *            may be NULL, which means no rules, and ${error} may be NULL. If another pointer is
 *            NULL, a function with a status returns SYMTUNER_EINVAL and a function that reads a
 *            word returns -1; other functions do not accept NULL.
 * Sizes      structs that may grow begin with struct_size, which the caller sets to sizeof. The
 *            struct of a caller with an older header is shorter: members that it lacks are taken as
 *            0 in a query and are not written in a decision. A size above the library's own is
 *            SYMTUNER_EINVAL.
 * Needs      nothing installed. Queries are about NCCL 2.27 or later; for an older release the
 *            result is SYMTUNER_EINVAL.
 * Since      0.1, everything.
 */
#ifndef SYMTUNER_H_
#define SYMTUNER_H_

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define SYMTUNER_VERSION "0.1.0"

#if defined(__GNUC__)
#define SYMTUNER_API __attribute__((visibility("default")))
#else
#define SYMTUNER_API
#endif

/* Limits of a rules text. */
enum {
    SYMTUNER_RULES_MAX = 256,  /* rules in one object                      */
    SYMTUNER_LINE_MAX  = 4096, /* bytes in a line, newline not counted     */
    SYMTUNER_NAME_MAX  = 63,   /* bytes in a rule's name                   */
    SYMTUNER_GPU_MAX   = 95,   /* bytes in a GPU pattern                   */
    SYMTUNER_TEXT_MAX  = 1 << 20, /* bytes in a rules text or file         */
    SYMTUNER_ERROR_MAX = 512,  /* a buffer of this size holds every error  */
};

enum symtuner_status {
    SYMTUNER_OK = 0,
    SYMTUNER_ENOMEM,    /* out of memory                                  */
    SYMTUNER_EIO,       /* a file cannot be read                          */
    SYMTUNER_ESYNTAX,   /* the text is wrong; the error names the word    */
    SYMTUNER_EMISMATCH, /* the provenance is of another machine           */
    SYMTUNER_EINVAL,    /* an argument is out of range                    */
};

/* NCCL's own numbers. */
enum symtuner_coll {
    SYMTUNER_BROADCAST,
    SYMTUNER_REDUCE,
    SYMTUNER_ALLGATHER,
    SYMTUNER_REDUCESCATTER,
    SYMTUNER_ALLREDUCE,
    SYMTUNER_COLLS
};
enum symtuner_algo {
    SYMTUNER_TREE,
    SYMTUNER_RING,
    SYMTUNER_COLLNET_DIRECT,
    SYMTUNER_COLLNET_CHAIN,
    SYMTUNER_NVLS,
    SYMTUNER_NVLS_TREE,
    SYMTUNER_PAT,
    SYMTUNER_ALGOS
};
enum symtuner_proto { SYMTUNER_LL, SYMTUNER_LL128, SYMTUNER_SIMPLE, SYMTUNER_PROTOS };

/* The machine as rules see it. Every rank of a job must see the same one. */
struct symtuner_machine {
    char gpu[SYMTUNER_GPU_MAX + 1]; /* "NVIDIA H200"; "" when unknown              */
    int arch;      /* 10 x compute capability: 90, 100; 0 unknown  */
    int nvlink;    /* 1 all GPUs have NVLink, 0 none, -1 unknown   */
    int multicast; /* 1 NCCL may use NVLink multicast, 0 may not, -1 unknown */
    int gpus;      /* in the box; 0 unknown                                     */
};

/* One call, as NCCL describes it to a tuner. */
struct symtuner_query {
    size_t struct_size; /* sizeof(struct symtuner_query), see Sizes                */
    int nccl;           /* release, 22809 for 2.28.9                               */
    enum symtuner_coll coll;
    uint64_t bytes;     /* NCCL's nBytes, see Units                                */
    int ranks;          /* of the communicator, >= 1                               */
    int nodes;          /* NCCL's nodes: an MNNVL clique counts as one             */
    int pipe_ops;       /* operations in the group, 1 outside groups; 0 is a probe */
    int registered;     /* 1 when NCCL says regBuff; not the same as "symmetric"   */
    struct symtuner_machine machine;
    int no_defaults;    /* 1 leaves out the built-in CTA count (SYMTUNER_DEFAULTS=0) */
};

enum symtuner_prefer {
    SYMTUNER_LEAVE,      /* NCCL's own choice                                      */
    SYMTUNER_SYMMETRIC,  /* as far as the release allows                           */
    SYMTUNER_GENERAL,    /* the algorithm and protocol given                       */
};

/* What the rules decide about one query. */
struct symtuner_decision {
    size_t struct_size;  /* set by the caller, see Sizes                           */
    int rule;            /* index of the rule that applies; -1: none, NCCL decides */
    int line;            /* its line in the text; 0 when rule is -1                */
    char name[SYMTUNER_NAME_MAX + 1];
    enum symtuner_prefer prefer;
    int algo, proto;     /* for SYMTUNER_GENERAL; -1 is "any"                      */
    uint32_t forbid;     /* bit algo * 3 + proto: entries that must not be chosen  */
    int process_ctas;    /* NCCL_SYM_CTAS that the rules want for the process; 0 none */
    int channels;        /* of general kernels; 0: NCCL's                          */
    int min_ctas;        /* NCCL_MIN_CTAS, built in for this box and release; 0 none */
};

typedef struct symtuner_rules symtuner_rules;

/*
 * symtuner_rules_load(path, rules_out, error, error_size):
 * Read rules from a file: symtuner's own format (docs/rules.md), or the CSV of NCCL's example tuner
 * when the name ends in .csv. The file may have SYMTUNER_TEXT_MAX bytes. For a pipe or a device the
 * result is SYMTUNER_EIO, so that loading never waits; /dev/null is an empty text.
 * symtuner_rules_load_csv reads that CSV whatever the file is called.
 * symtuner_rules_parse reads symtuner's format from memory; ${name} stands for the file in errors.
 * symtuner_rules_inline reads the one-line form of SYMTUNER_RULE.
 * On failure ${error} holds "name:line:column: what is wrong; the cure".
 * Since 0.1.
 */
SYMTUNER_API enum symtuner_status symtuner_rules_load(const char *path, symtuner_rules **rules_out,
                                                      char *error, size_t error_size);
SYMTUNER_API enum symtuner_status symtuner_rules_load_csv(const char *path,
                                                          symtuner_rules **rules_out, char *error,
                                                          size_t error_size);
SYMTUNER_API enum symtuner_status symtuner_rules_parse(const char *text, const char *name,
                                                       symtuner_rules **rules_out, char *error,
                                                       size_t error_size);
SYMTUNER_API enum symtuner_status symtuner_rules_inline(const char *text,
                                                        symtuner_rules **rules_out, char *error,
                                                        size_t error_size);
SYMTUNER_API void symtuner_rules_free(symtuner_rules *rules);

/* Return, as text, the built-in CTA count and the boxes and releases that get it. Since 0.1. */
SYMTUNER_API const char *symtuner_defaults_text(void);

/* Return the number of rules, and a 64-bit hash of their meaning. If all ranks have equal hashes,
 * they have equal rules. */
SYMTUNER_API int symtuner_rules_count(const symtuner_rules *rules);
SYMTUNER_API uint64_t symtuner_rules_hash(const symtuner_rules *rules);

/*
 * symtuner_rules_lint(rules, index, text, size):
 * Write the ${index}-th finding about rules that are legal but cannot work: a rule that earlier
 * rules hide, an action that no release in its range can do, a preference for LL128 where NCCL does
 * not offer it. Returns 1, or 0 if there are no more than ${index} findings.
 */
SYMTUNER_API int symtuner_rules_lint(const symtuner_rules *rules, int index, char *text,
                                     size_t size);

/*
 * symtuner_rules_fit(rules, nccl, machine, error, error_size):
 * Check whether the [provenance] section matches this release and machine. Returns SYMTUNER_OK if
 * it matches or there is no such section, else SYMTUNER_EMISMATCH with a text in ${error}. The
 * plugin refuses rules that do not fit.
 */
SYMTUNER_API enum symtuner_status symtuner_rules_fit(const symtuner_rules *rules, int nccl,
                                                     const struct symtuner_machine *machine,
                                                     char *error, size_t error_size);

/*
 * symtuner_decide(rules, query, decision_out):
 * Decide by the first rule, in file order, that covers ${query}. If ${rules} is NULL, only the
 * built-in defaults decide. Returns SYMTUNER_EINVAL if the query is out of range (ranks or nodes <
 * 1, pipe_ops < 0, unknown collective, release < 2.27).
 */
SYMTUNER_API enum symtuner_status symtuner_decide(const symtuner_rules *rules,
                                                  const struct symtuner_query *query,
                                                  struct symtuner_decision *decision_out);

/* One all-reduce of libsymtuner_ar.so, as its rules see it. */
struct symtuner_kernel_query {
    size_t struct_size; /* set by the caller, see Sizes; also in the struct below         */
    int nccl;           /* release; 0: a group without NCCL, which fits any release       */
    uint64_t bytes;
    int ranks, registered; /* 1: both buffers are registered with the library             */
    int dtype, op;      /* NCCL's numbers                                                 */
    struct symtuner_machine machine;
    int beside; /* enum symtuner_ar_beside: what the handle was told to run beside        */
    int boxes;  /* that the ranks are on. 0, 1: one. More: only rules with network-pieces count;
                   these take registered as 0 and beside as unknown */
};

/* What the [kernels] rules decide about an all-reduce of libsymtuner_ar.so. */
struct symtuner_kernel_decision {
    size_t struct_size;
    int rule;           /* index; -1: none, the library's own table decides               */
    int line;
    char name[SYMTUNER_NAME_MAX + 1];
    const char *kernel; /* a name of symtuner_ar_kernel_name(); NULL: the table decides   */
    int ctas, threads;  /* 0: the table decides                                           */
    int beside;         /* the table's column to take; -1: as the handle was told         */
    int network_pieces; /* ranks on several boxes: add up box by box, in so many pieces;
                           0: by NCCL alone; -1: no rule says                             */
};

/*
 * symtuner_kernel_decide(rules, query, decision_out):
 * Decide by the first [kernels] rule, in file order, that covers ${query}; libsymtuner_ar.so tries
 * that decision first. Returns SYMTUNER_EINVAL if the query is out of range. Since 0.1.
 */
SYMTUNER_API enum symtuner_status symtuner_kernel_decide(
    const symtuner_rules *rules, const struct symtuner_kernel_query *query,
    struct symtuner_kernel_decision *decision_out);

/*
 * symtuner_table_apply(decision, query, table, n_algo, n_proto, channels):
 * Write what the plugin would write into NCCL's cost table and channel count. Entry (a, p) is
 * table[a * n_proto + p], in microseconds; a negative entry is not available and stays negative.
 * Only numbers above 0 are written, and at least one entry stays selectable if one was selectable
 * before. Returns 1 if anything changed.
 */
SYMTUNER_API int symtuner_table_apply(const struct symtuner_decision *decision,
                                      const struct symtuner_query *query, float *table, int n_algo,
                                      int n_proto, int *channels);

/*
 * symtuner_table_pick(nccl, table, n_algo, n_proto, algo_out, proto_out):
 * Find the entry that NCCL would take from the table: the smallest selectable one; ties and
 * negative entries are treated as release ${nccl} does. Returns 0 if nothing is selectable.
 */
SYMTUNER_API int symtuner_table_pick(int nccl, const float *table, int n_algo, int n_proto,
                                     int *algo_out, int *proto_out);

/*
 * symtuner_explain(rules, query, decision, text, size):
 * Write one paragraph for a person: which rule applies, where it is written, and what the release
 * lets the rule change or not. Returns the length that the whole text needs, as snprintf does.
 */
SYMTUNER_API int symtuner_explain(const symtuner_rules *rules, const struct symtuner_query *query,
                                  const struct symtuner_decision *decision, char *text,
                                  size_t size);

/* A SYMTUNER_* variable. symtuner_option_get fills in the ${index}-th and returns 1, or 0 past the
 * last. */
struct symtuner_option {
    const char *name, *fallback, *values, *help;
};
SYMTUNER_API int symtuner_option_get(int index, struct symtuner_option *option_out);

/* Find out what this box has: GPU model, NVLink, multicast. Loads NVML and CUDA if installed.
 * Returns 0 if there is no GPU; all of ${machine_out} is "unknown" then. On one thread at a
 * time. */
SYMTUNER_API int symtuner_machine_find(struct symtuner_machine *machine_out);

/* Translate numbers into words and back, for programs that print or read. Return NULL or -1 if the
 * number or word is unknown. Words are case-insensitive. */
SYMTUNER_API const char *symtuner_coll_name(int coll);
SYMTUNER_API const char *symtuner_algo_name(int algo);
SYMTUNER_API const char *symtuner_proto_name(int proto);
SYMTUNER_API int symtuner_coll_parse(const char *text);
SYMTUNER_API int symtuner_algo_parse(const char *text);
SYMTUNER_API int symtuner_proto_parse(const char *text);
SYMTUNER_API const char *symtuner_status_text(enum symtuner_status status);

/* Read a size in bytes, such as "64KiB", "1.5GB" or "4096". Returns 0, or -1 with the reason in
 * ${error}. */
SYMTUNER_API int symtuner_size_parse(const char *text, uint64_t *bytes_out, char *error,
                                     size_t error_size);

#ifdef __cplusplus
}
#endif

#endif
