/* SPDX-License-Identifier: Apache-2.0 */
/*
 * symtuner_why.h - predicts what NCCL does with a call, and why it runs no symmetric kernel.
 *
 * NCCL 2.27 and later have two families of kernels. For general kernels (ring, tree, NVLS) NCCL has
 * a cost table, which a tuner plugin sees. Symmetric kernels work on windows that every GPU can
 * address. Whether a symmetric kernel runs depends on 17 conditions (SYMTUNER_GATE_MAP), which
 * differ from release to release; one of them is about that table. symtuner_predict checks these
 * conditions for the call and the machine that its argument describes. It returns which kernel NCCL
 * runs, and the first condition that fails (struct symtuner_verdict). It needs no GPU and no NCCL.
 *
 * symtuner_predict is right for every recorded decision in test/data (releases 2.27.7 to 2.30.7).
 * For 2.31 and 2.32 it follows NCCL's source as far as we could read it. Where we could not, it
 * sets verdict.unsure. symtuner_predict does not model three things: symmetric kernels over the
 * network (several nodes, from 2.29 on), NVLink domains of several hosts (MNNVL), and what other
 * tuner plugins write.
 *
 * Units      bytes and elements are those that the caller passes to NCCL: for AllGather and
 *            ReduceScatter those of one rank's part. Times are microseconds that NCCL predicts, not
 *            measured times.
 * Ownership  symtuner_predict reads the strings in a call and keeps no pointer to them. Strings in
 *            a verdict are constants.
 * Threads    every function is pure and may run on any thread.
 * Errors     symtuner_predict returns SYMTUNER_EINVAL if a pointer is NULL, if a member is out of
 *            range, or if a struct_size is too small.
 * Since      0.2, everything. This header is not installed, and no library has these functions.
 *            The command and the tests are linked with nccl/model/, which has them.
 */
#ifndef SYMTUNER_WHY_H_
#define SYMTUNER_WHY_H_

#include "include/symtuner.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Data types and operators with NCCL's own numbers. For types X(name, number, bytes of one element,
 * text); for operators X(name, number, text). */
#define SYMTUNER_DTYPE_MAP(X)                                                                      \
    X(INT8,    0, 1, "i8")                                                                         \
    X(UINT8,   1, 1, "u8")                                                                         \
    X(INT32,   2, 4, "i32")                                                                        \
    X(UINT32,  3, 4, "u32")                                                                        \
    X(INT64,   4, 8, "i64")                                                                        \
    X(UINT64,  5, 8, "u64")                                                                        \
    X(FLOAT16, 6, 2, "f16")                                                                        \
    X(FLOAT32, 7, 4, "f32")                                                                        \
    X(FLOAT64, 8, 8, "f64")                                                                        \
    X(BFLOAT16, 9, 2, "bf16")                                                                      \
    X(FLOAT8E4M3, 10, 1, "f8e4m3")                                                                 \
    X(FLOAT8E5M2, 11, 1, "f8e5m2")

#define SYMTUNER_OP_MAP(X)                                                                         \
    X(SUM,  0, "sum")                                                                              \
    X(PROD, 1, "prod")                                                                             \
    X(MAX,  2, "max")                                                                              \
    X(MIN,  3, "min")                                                                              \
    X(AVG,  4, "avg")                                                                              \
    X(PREMULSUM, 5, "premulsum") /* stands for every operator that the application made */

enum symtuner_dtype {
#define X(name, number, size, text) SYMTUNER_##name = number,
    SYMTUNER_DTYPE_MAP(X)
#undef X
    SYMTUNER_DTYPES
};
enum symtuner_op {
#define X(name, number, text) SYMTUNER_##name = number,
    SYMTUNER_OP_MAP(X)
#undef X
    SYMTUNER_OPS
};

/* How a buffer is registered with NCCL. Up to 2.28 symmetric kernels need SYMTUNER_REG_SYMMETRIC
 * for both buffers. From 2.29 on some kernels need it for one buffer, or for none. */
enum symtuner_reg {
    SYMTUNER_REG_NONE,      /* plain device memory                                         */
    SYMTUNER_REG_COMM,      /* ncclCommRegister                                            */
    SYMTUNER_REG_WINDOW,    /* ncclCommWindowRegister without NCCL_WIN_COLL_SYMMETRIC      */
    SYMTUNER_REG_SYMMETRIC, /* ncclCommWindowRegister with NCCL_WIN_COLL_SYMMETRIC         */
    SYMTUNER_REGS
};

/* One call on one machine. Fill it with symtuner_call_init, then change what differs. */
struct symtuner_call {
    size_t struct_size; /* set by symtuner_call_init                                            */
    int nccl;           /* release: 22809 for 2.28.9                                            */

    /* the call */
    enum symtuner_coll coll;
    enum symtuner_dtype dtype;
    enum symtuner_op op;       /* ignored for AllGather and Broadcast                           */
    uint64_t count;            /* elements, as the caller passes them to NCCL                   */
    enum symtuner_reg send, recv;
    int group;                 /* number of identical calls in one group, at least 1            */
    int graph;                 /* 1: captured into a CUDA graph; no verdict depends on this     */
    int inplace;               /* 1: send and receive buffer are one; no verdict depends on it  */
    int first;                 /* 1: no earlier call of the communicator ran a symmetric kernel */

    /* the machine and the communicator */
    int ranks, nodes;
    int one_process;           /* 1: several GPUs of the communicator belong to one process     */
    int arch;                  /* 10 x compute capability, the smallest of all GPUs             */
    int nvlink;                /* 1: direct NVLink (or NVSwitch) between every pair of GPUs     */
    int peer_raw;              /* 1: the driver allows peer access between every pair           */
    int peer_nccl;             /* 1: NCCL's P2P transport works between every pair, which needs
                                  more than peer access                                         */
    int multicast;             /* 1: GPUs have NVLink multicast, and NCCL_NVLS_ENABLE is not 0  */

    /* NCCL's settings, with the value that symtuner_call_init sets */
    int win_enable;            /* NCCL_WIN_ENABLE; default 1                                    */
    int cumem_enable;          /* NCCL_CUMEM_ENABLE; default 1 ("automatic" counts as 1)        */
    int cta_policy;            /* NCCL_CTA_POLICY; default 0                                    */
    int min_ctas, max_ctas;    /* NCCL_MIN_CTAS (default 1) and NCCL_MAX_CTAS (default 64), or
                                  the limits that the communicator was made with                */
    int sym_ctas;              /* NCCL_SYM_CTAS; default 0: NCCL chooses                        */
    int sym_nowin;             /* NCCL_SYM_NOWIN_ENABLE; default 0                              */
    int sym_tma;               /* NCCL_SYM_TMA_ENABLE; default -1: the release's own default    */
    int proc_reg;              /* NCCL_SINGLE_PROC_MEM_REG_ENABLE; default 0                    */
    int64_t ce_threshold;      /* NCCL_SYM_CE_THRESHOLD in elements; default -1: NCCL's own     */
    const char *sym_kernel;    /* NCCL_SYM_KERNEL; default NULL: not set                        */
    const char *algo;          /* NCCL_ALGO; default NULL: not set                              */
    const char *proto;         /* NCCL_PROTO; default NULL: not set                             */
    int tuner_ll;              /* 1: a tuner plugin answers LL if NCCL asks whether to keep an
                                  LL symmetric kernel. symtuner does so for calls of a rule with
                                  prefer = symmetric                                            */

    /* The cost table that NCCL shows a tuner for this call: 7 x 3 times in microseconds, beginning
     * with tree/ll. If it is NULL, the algorithm of a general kernel is not predicted. */
    const float *table;
};

/* Fill in ${call} for release ${nccl}, with NCCL's default settings. It is an AllReduce of one f32
 * without registered buffers. The machine is one node with 8 ranks, one process per rank, sm_90,
 * NVLink and no multicast. */
SYMTUNER_API void symtuner_call_init(struct symtuner_call *call, int nccl);

/* The gates: the conditions that a call must meet to run on a symmetric kernel, in the order in
 * which NCCL checks them. If a call fails several gates, the verdict names the first.
 * X(id, name, what must hold, the cure) */
#define SYMTUNER_GATE_MAP(X)                                                                       \
    X(RELEASE,  "release",  "NCCL is 2.27 or newer: older ones have no symmetric kernels",         \
      "install NCCL 2.28.9 or newer")                                                              \
    X(FP8,      "fp8",      "8-bit floats need compute capability 9.0",                            \
      "reduce in bf16 on this GPU; NCCL returns ncclInvalidArgument")                              \
    X(RANKS,    "ranks",    "the communicator has at least two ranks",                             \
      "nothing to do: with one rank the call only copies")                                         \
    X(NODES,    "nodes",    "all ranks are on one node",                                           \
      "symmetric kernels over the network need GIN and NCCL 2.29; not modelled here")              \
    X(WINDOWS,  "windows",  "windows are enabled (NCCL_WIN_ENABLE, NCCL_CUMEM_ENABLE)",            \
      "unset NCCL_WIN_ENABLE and NCCL_CUMEM_ENABLE")                                               \
    X(PEER,     "peer",     "every pair of GPUs has peer access",                                  \
      "run symtuner doctor: IOMMU, ACS, NCCL_P2P_DISABLE and NCCL_P2P_LEVEL can take it away")     \
    X(CE,       "ce",       "the call is not handed to the copy engine",                           \
      "unset NCCL_CTA_POLICY, or raise NCCL_SYM_CE_THRESHOLD (it counts elements)")                \
    X(NVLINK,   "nvlink",   "every pair of GPUs has direct NVLink (2.29 and newer)",               \
      "with NVLink: unset NCCL_P2P_DISABLE and NCCL_P2P_LEVEL. On PCIe NCCL 2.29 and newer has "   \
      "no symmetric kernels; symtuner's own kernels (libsymtuner_ar) run there")                   \
    X(COLL,     "coll",     "the collective is AllReduce, AllGather or ReduceScatter",             \
      "none: other collectives have no symmetric kernels")                                         \
    X(TYPE,     "type",     "the operation is a sum of f32, f16, bf16 or fp8 (AllGather: any)",    \
      "sum in a floating-point type; avg: sum, then scale")                                        \
    X(ALGO_ENV, "algo-env", "NCCL_ALGO is not set for this collective (2.31 and newer)",           \
      "unset NCCL_ALGO, or name the symmetric kernels in NCCL_SYM_KERNEL as well")                 \
    X(KERNEL_ENV, "kernel-env", "NCCL_SYM_KERNEL leaves a kernel for this collective",             \
      "unset NCCL_SYM_KERNEL: one name switches all other collectives off")                        \
    X(SIZE,     "size",     "the call is below 64 GiB (LL kernels: 2 GiB)",                        \
      "split the call")                                                                            \
    X(REGISTERED, "registered",                                                                    \
      "the buffers that count are in NCCL_WIN_COLL_SYMMETRIC windows",                             \
      "allocate with ncclMemAlloc and call ncclCommWindowRegister(..., NCCL_WIN_COLL_SYMMETRIC) "  \
      "on both buffers")                                                                           \
    X(GROUP,    "group",                                                                           \
      "a group of several calls needs NCCL 2.28 or newer, and a kernel that is not LL",            \
      "issue the calls one by one; from 2.28 on registering both buffers is enough")               \
    X(PROCESS,  "process",  "LL kernels: each process has one GPU",                                \
      "run one process per GPU, or set NCCL_SINGLE_PROC_MEM_REG_ENABLE=1")                         \
    X(LL_ASKED, "ll-asked", "LL kernels: the cheapest general kernel uses LL, too",                \
      "register both buffers (2.29.7 and newer); a tuner such as symtuner can answer LL")

enum symtuner_gate {
#define X(id, name, text, cure) SYMTUNER_GATE_##id,
    SYMTUNER_GATE_MAP(X)
#undef X
    SYMTUNER_GATES,
    SYMTUNER_GATE_NONE = SYMTUNER_GATES
};

enum symtuner_gate_state {
    SYMTUNER_GATE_PASS,
    SYMTUNER_GATE_FAIL,
    SYMTUNER_GATE_IDLE,    /* the condition does not concern this release or call     */
    SYMTUNER_GATE_UNKNOWN, /* depends on the cost table, which was not given          */
};

enum symtuner_kind {
    SYMTUNER_KIND_GENERAL,   /* a general kernel, such as ring, tree or NVLS                   */
    SYMTUNER_KIND_SYMMETRIC,
    SYMTUNER_KIND_CE,        /* the copy engine; no kernel runs                                */
    SYMTUNER_KIND_ERROR,     /* NCCL refuses the call, or runs nothing                         */
    SYMTUNER_KIND_OPEN,      /* symmetric if LL is the cheapest in the cost table, which was not
                                given; else general                                            */
    SYMTUNER_KINDS
};

/* A symmetric kernel of this collective. */
struct symtuner_candidate {
    const char *name;
    int usable;     /* 1: the call can use this kernel                                */
    /* The next three are 0 if ${usable} is 0. */
    int ctas;       /* number of CTAs that NCCL's model picks                         */
    float time_us;  /* the kernel's time as NCCL predicts it                          */
    float cost;     /* time plus 2.5 % for each CTA; NCCL takes the least cost        */
};

struct symtuner_verdict {
    size_t struct_size;        /* set by the caller                                           */
    enum symtuner_kind kind;
    enum symtuner_gate gate;   /* the first condition that fails; SYMTUNER_GATE_NONE: none    */
    enum symtuner_gate_state state[SYMTUNER_GATES];
    const char *kernel;        /* the symmetric kernel, as NCCL_SYM_KERNEL spells it, if
                                  ${kind} is SYMMETRIC or OPEN; otherwise NULL                */
    int ctas;                  /* CTAs that ${kernel} runs on; nchannels in NCCL's log        */
    float time_us;             /* time of ${kernel} as NCCL predicts it                       */
    /* NCCL's choice of a general kernel; -1 if ${kind} is not GENERAL, if the call has no cost
     * table, or if NCCL can choose no entry of it */
    int algo, proto;
    int tuner_calls;           /* how often NCCL calls getCollInfo; -1: not known             */
    int broken;                /* 1: NCCL picks a kernel that does not exist, so the call
                                  fails (an AllReduce with avg)                               */
    int unsure;                /* 1: we do not know for sure what NCCL does with the call     */
    int candidates;            /* number of entries in ${candidate}                           */
    struct symtuner_candidate candidate[8];
};

/*
 * symtuner_predict(call, verdict_out):
 * Predict what NCCL does with ${call}. Pure: the same call gives the same verdict on every rank.
 * Returns SYMTUNER_EINVAL if a member is out of range (ranks < 1, count 0, unknown type ...).
 * Since 0.2.
 */
SYMTUNER_API enum symtuner_status symtuner_predict(const struct symtuner_call *call,
                                                   struct symtuner_verdict *verdict_out);

/* Return the name, the text or the cure of a condition, or the name of a kind. Return NULL if there
 * is no condition or kind with that number. */
SYMTUNER_API const char *symtuner_gate_name(enum symtuner_gate gate);
SYMTUNER_API const char *symtuner_gate_text(enum symtuner_gate gate);
SYMTUNER_API const char *symtuner_gate_cure(enum symtuner_gate gate);
SYMTUNER_API const char *symtuner_kind_name(enum symtuner_kind kind);

/* symtuner_dtype_size returns the bytes of one element, or 0 if the type is unknown. The _name
 * functions return a name such as "f32" or "sum", or NULL. The _parse functions return the number
 * of a name, or -1. Types may also be written as frameworks write them: "float32",
 * "torch.bfloat16", "half", "float8_e4m3fn". */
SYMTUNER_API int symtuner_dtype_size(int dtype);
SYMTUNER_API const char *symtuner_dtype_name(int dtype);
SYMTUNER_API const char *symtuner_op_name(int op);
SYMTUNER_API int symtuner_dtype_parse(const char *text);
SYMTUNER_API int symtuner_op_parse(const char *text);

#ifdef __cplusplus
}
#endif

#endif
