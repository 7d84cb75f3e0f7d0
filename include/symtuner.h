/* SPDX-License-Identifier: Apache-2.0 */
/*
 * symtuner.h - the rule engine of libsymtuner: loads rules, decides about a call, explains why.
 *
 * The plugin runs the same code inside NCCL. Every decision is a pure function of rules and query,
 * so symtuner_decide returns the decision that the plugin makes. No function needs a GPU, NCCL or
 * CUDA.
 *
 * Units      sizes are bytes, and ${bytes} is NCCL's nBytes. For AllReduce, Broadcast and Reduce
 *            this is count x element size. For AllGather and ReduceScatter it is count x ranks x
 *            element size, where count is the elements of one rank's part. Costs are microseconds,
 *            as NCCL predicts them. In a probe (pipe_ops 0) NCCL's nBytes is the size of one
 *            rank's part.
 * Numbers    collectives, algorithms and protocols have NCCL's own numbers. An NCCL release is
 *            major * 10000 + minor * 100 + patch, as ncclGetVersion returns it (2.28.9 is 22809).
 * Ownership  symtuner_rules_load, _load_csv, _parse and _inline return an object that the caller
 *            frees with symtuner_rules_free. Returned strings are static.
 * Threads    rules do not change once loaded. Any function may run on any thread, also on several
 *            threads at once.
 * Errors     functions that can fail return enum symtuner_status. Texts are written to the caller's
 *            buffer, and always end with a zero byte. Outputs are written on success only. ${rules}
 *            may be NULL, which means no rules, and ${error} may be NULL. If another pointer is
 *            NULL, a function that returns a status returns SYMTUNER_EINVAL, and a _parse function
 *            that reads a word returns -1. In all other functions the behaviour is undefined.
 * Sizes      structs that may grow begin with struct_size, which the caller sets to sizeof. If the
 *            caller was built with an older header, its struct may lack members at the end. In a
 *            query the missing members count as 0. In a decision they are not written. If
 *            struct_size is larger than the library's own, the result is SYMTUNER_EINVAL.
 * Needs      no other software. A struct symtuner_query must be about NCCL 2.27 or later; for an
 *            older release symtuner_decide returns SYMTUNER_EINVAL.
 * Since      0.2, everything.
 */
#ifndef SYMTUNER_H_
#define SYMTUNER_H_

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define SYMTUNER_VERSION "0.2.0"

#if defined(__GNUC__)
#define SYMTUNER_API __attribute__((visibility("default")))
#else
#define SYMTUNER_API
#endif

/* Limits of a rules text. */
enum {
    SYMTUNER_RULES_MAX = 256,  /* rules in one symtuner_rules              */
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
    SYMTUNER_EMISMATCH, /* [provenance] names another machine or release  */
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

/* The machine as rules see it. Every rank of a job must see the same machine. */
struct symtuner_machine {
    char gpu[SYMTUNER_GPU_MAX + 1]; /* name, such as "NVIDIA H200"; "": unknown    */
    int arch;      /* 10 x compute capability, such as 90 or 100; 0: unknown       */
    int nvlink;    /* 1: all GPUs have NVLink; 0: none has; -1: unknown            */
    int multicast; /* 1: NCCL may use NVLink multicast; 0: may not; -1: unknown    */
    int gpus;      /* number of GPUs in the box; 0: unknown                        */
};

/* One call, as NCCL describes it to a tuner. */
struct symtuner_query {
    size_t struct_size; /* sizeof(struct symtuner_query); see Sizes above            */
    int nccl;           /* release: 22809 for 2.28.9                                 */
    enum symtuner_coll coll;
    uint64_t bytes;     /* NCCL's nBytes; see Units above                            */
    int ranks;          /* number of ranks in the communicator, at least 1           */
    int nodes;          /* NCCL's nodes; boxes in one NVLink domain count as one     */
    /* Number of operations in the group; 1 outside groups. 0: the call is a probe, by which NCCL
     * 2.31 and later asks whether protocol LL would be the cheapest. */
    int pipe_ops;
    int registered;     /* 1: NCCL treats both buffers as registered (its regBuff),
                           which does not mean that they are in symmetric windows    */
    struct symtuner_machine machine;
    int no_defaults;    /* 1: do not use built-in CTA counts (SYMTUNER_DEFAULTS=0)  */
};

enum symtuner_prefer {
    SYMTUNER_LEAVE,      /* NCCL chooses                                            */
    SYMTUNER_SYMMETRIC,  /* a symmetric kernel, as far as the release allows        */
    SYMTUNER_GENERAL,    /* the given algorithm and protocol for general kernels    */
};

/* What the rules decide about one query. */
struct symtuner_decision {
    size_t struct_size;  /* set by the caller; see Sizes above                         */
    int rule;            /* index of the rule that applies; -1: none does, so NCCL
                            decides                                                    */
    int line;            /* the rule's line in the text; 0 if ${rule} is -1            */
    char name[SYMTUNER_NAME_MAX + 1];
    enum symtuner_prefer prefer;
    int algo, proto;     /* used if ${prefer} is SYMTUNER_GENERAL; -1: any             */
    uint32_t forbid;     /* bit algo * 3 + proto: entries that must not be chosen      */
    int process_ctas;    /* NCCL_SYM_CTAS that the [process] rules want; 0: none       */
    int channels;        /* number of channels of general kernels (from NCCL 2.31 on: the
                            largest number); 0: NCCL's own                             */
    int min_ctas;        /* built-in NCCL_MIN_CTAS for this box and release; 0: none   */
};

typedef struct symtuner_rules symtuner_rules;

/*
 * symtuner_rules_load(path, rules_out, error, error_size):
 * Read rules from a file: symtuner's own format (docs/rules.md), or the CSV of NCCL's example tuner
 * if the file's name ends in .csv. The file has at most SYMTUNER_TEXT_MAX bytes. For a pipe or a
 * device the result is SYMTUNER_EIO, so that loading never waits; /dev/null is an empty text.
 * symtuner_rules_load_csv reads that CSV from a file of any name.
 * symtuner_rules_parse reads symtuner's format from memory; ${name} is the file's name in errors.
 * symtuner_rules_inline reads the one-line form of SYMTUNER_RULE.
 * If a word of the text is wrong, ${error} holds "name:line:column: what is wrong; the cure". After
 * any other failure ${error} has no line and no column.
 * Since 0.2.
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

/* Return a text to show to people. It names the CTA count (NCCL_MIN_CTAS) that is built into the
 * plugin, and the boxes and releases for which the plugin uses it. Since 0.2. */
SYMTUNER_API const char *symtuner_defaults_text(void);

/* symtuner_rules_count returns the number of rules. symtuner_rules_hash returns a 64-bit hash of
 * what the rules mean: if two ranks have equal hashes, their rules decide alike. [provenance] and
 * the rules' names are not hashed. */
SYMTUNER_API int symtuner_rules_count(const symtuner_rules *rules);
SYMTUNER_API uint64_t symtuner_rules_hash(const symtuner_rules *rules);

/*
 * symtuner_rules_lint(rules, index, text, size):
 * Find rules that are legal but cannot do what they say, or that lead calls into a fault of NCCL.
 * Write finding number ${index} (from 0) to ${text}. One example is a rule that never applies,
 * because an earlier rule covers all of its calls. Another is a preference for an algorithm that
 * NCCL does not offer on the rule's machine. Returns 1, or 0 if there is no finding with that
 * number.
 */
SYMTUNER_API int symtuner_rules_lint(const symtuner_rules *rules, int index, char *text,
                                     size_t size);

/*
 * symtuner_rules_fit(rules, nccl, machine, error, error_size):
 * Check whether the [provenance] section matches this release and machine. Returns SYMTUNER_OK if
 * the section matches, or if there is no such section. Otherwise returns SYMTUNER_EMISMATCH and
 * writes a text to ${error}. The plugin refuses rules that do not fit.
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

/* A call of libsymtuner_ar.so, described by what the conditions of [kernels] rules can name. */
struct symtuner_kernel_query {
    size_t struct_size; /* set by the caller; see Sizes above                             */
    int nccl;           /* release; 0: a group without NCCL, which fits any release       */
    uint64_t bytes;     /* bytes of the whole call, as in struct symtuner_query */
    int ranks;
    int registered;     /* 1: both buffers are registered with the library                */
    int dtype, op;      /* NCCL's numbers; ${op} is ignored for an all-gather             */
    struct symtuner_machine machine;
    int beside;         /* enum symtuner_ar_beside: what the kernels run beside           */
    /* Number of boxes that the ranks are on; 0 counts as 1. With several boxes, only rules with
     * network-pieces can apply, and only to all-reduces; for them ${registered} counts as 0 and
     * ${beside} as unknown. */
    int boxes;
    int coll;           /* enum symtuner_ar_coll; 0: all-reduce                           */
};

/* What the [kernels] rules decide about a call of libsymtuner_ar.so. */
struct symtuner_kernel_decision {
    size_t struct_size; /* set by the caller; see Sizes above                             */
    int rule;           /* index of the rule; -1: none, the library's own table decides   */
    int line;           /* the rule's line in the text                                    */
    char name[SYMTUNER_NAME_MAX + 1];
    const char *kernel; /* a name of symtuner_ar_kernel_name(); NULL: the table decides   */
    int ctas, threads;  /* largest number of blocks; threads per block; 0: the table decides */
    int beside;         /* enum symtuner_ar_beside: the column of the library's table to
                           use; -1: the column of the query's ${beside}                   */
    /* For ranks on several boxes: add up box by box, in this many pieces. 0: NCCL runs the call.
     * -1: no rule says how the call runs. */
    int network_pieces;
};

/*
 * symtuner_kernel_decide(rules, query, decision_out):
 * Decide by the first [kernels] rule, in file order, that covers ${query}. libsymtuner_ar.so
 * follows that decision if it can; otherwise its own table decides. Returns SYMTUNER_EINVAL if the
 * query is out of range.
 * Since 0.2.
 */
SYMTUNER_API enum symtuner_status symtuner_kernel_decide(
    const symtuner_rules *rules, const struct symtuner_kernel_query *query,
    struct symtuner_kernel_decision *decision_out);

/*
 * symtuner_table_apply(decision, query, table, n_algo, n_proto, channels):
 * Change ${table} and ${*channels} as the plugin would change NCCL's cost table and channel count
 * if NCCL_ENQUEUE_REARCH_ENABLE=1 is not set. Entry (a, p) is table[a * n_proto + p], in
 * microseconds; a negative entry is not available and stays negative. Only numbers above 0 are
 * written, and at least one entry stays selectable if one was selectable before. Returns 1 if
 * anything changed, else 0.
 */
SYMTUNER_API int symtuner_table_apply(const struct symtuner_decision *decision,
                                      const struct symtuner_query *query, float *table, int n_algo,
                                      int n_proto, int *channels);

/*
 * symtuner_table_pick(nccl, table, n_algo, n_proto, algo_out, proto_out):
 * Find the entry that NCCL would choose from the table: the smallest of the entries that can be
 * selected. A negative entry cannot be selected. Release ${nccl} decides which of several equal
 * entries is chosen, and from which time on an entry cannot be selected. Returns 1, or 0 if no
 * entry can be selected.
 */
SYMTUNER_API int symtuner_table_pick(int nccl, const float *table, int n_algo, int n_proto,
                                     int *algo_out, int *proto_out);

/*
 * symtuner_explain(rules, query, decision, text, size):
 * Write one paragraph for people: which rule applies, where the rule is written, what it changes
 * in this release, and which CTA count symmetric kernels get. Returns the length that the whole
 * text needs, as snprintf does.
 */
SYMTUNER_API int symtuner_explain(const symtuner_rules *rules, const struct symtuner_query *query,
                                  const struct symtuner_decision *decision, char *text,
                                  size_t size);

/* An environment variable SYMTUNER_*. symtuner_option_get fills in variable number ${index} (from
 * 0) and returns 1. It returns 0 if there is no such number. */
struct symtuner_option {
    const char *name, *fallback; /* ${fallback} is the value if the variable is not set         */
    const char *values, *help;   /* ${values}: the legal values, such as "1|0"; "text": any text */
};
SYMTUNER_API int symtuner_option_get(int index, struct symtuner_option *option_out);

/* Find out what this box has: GPU model and number, NVLink, multicast. If SYMTUNER_MACHINE is set,
 * its text is the answer. Otherwise the function asks NVML, and about multicast the CUDA driver.
 * Returns 1. If NVML is not installed or finds no GPU, if the GPUs differ, or if SYMTUNER_MACHINE
 * is wrong, it returns 0, and all members of ${machine_out} say "unknown". Call this on one thread
 * at a time. */
SYMTUNER_API int symtuner_machine_find(struct symtuner_machine *machine_out);

/* Translate numbers into words and words into numbers. Return NULL if the number is unknown, and -1
 * if the word is unknown. Words may be in upper or lower case. */
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
