/* SPDX-License-Identifier: Apache-2.0 */
/*
 * options.h - the table of the SYMTUNER_* variables. They are read once per process.
 *
 * `symtuner env` and docs/env.md are printed from the same rows. The last rows belong to the
 * drop-in, the doctor and the JAX package. The plugin lists them only so that it does not report
 * their names as misspelt.
 */
#ifndef ST_OPTIONS_H_
#define ST_OPTIONS_H_

#include <stdbool.h>
#include <stddef.h>

/* The values of options that take a word. Each enum has the order of the words in the option's row
 * below. */
enum st_mode { ST_MODE_STEER, ST_MODE_OBSERVE, ST_MODE_OFF };
enum st_signal { ST_SIGNAL_NONE, ST_SIGNAL_USR1, ST_SIGNAL_USR2 };
enum st_log { ST_LOG_INFO, ST_LOG_WARN, ST_LOG_OFF };

extern const char *const st_mode_word[];

typedef const char *st_text_option;

/* X(type, member, variable, default, legal values, help). If any text is legal, the legal values
 * are "text". Otherwise they are a list of words: "1|0" for a bool, and for an enum one word per
 * enumerator, in the order of the enum. */
#define ST_OPTION_MAP(X)                                                                           \
    X(enum st_mode, mode, "SYMTUNER_MODE", "steer", "steer|observe|off",                           \
      "steer: apply rules; observe: count and report, but change nothing; off: do nothing")        \
    X(st_text_option, rules, "SYMTUNER_RULES", "", "text",                                         \
      "path of a rules file (docs/rules.md), which the plugin and libsymtuner_ar.so read, or of a "\
      "CSV of NCCL's example tuner (*.csv)")                                                       \
    X(st_text_option, rule, "SYMTUNER_RULE", "", "text",                                           \
      "rules on one line, before those of the file: \"allreduce bytes=..64KiB "                    \
      "prefer=general:ring/ll; process sym-ctas=16\"")                                             \
    X(bool, defaults, "SYMTUNER_DEFAULTS", "1", "1|0",                                             \
      "0: keep NCCL's own CTA count even on boxes that we measured (symtuner env --defaults)")     \
    X(bool, strict, "SYMTUNER_STRICT", "0", "1|0",                                                 \
      "1: if rules are wrong, this rank can create no communicator; for CI, not for jobs")         \
    X(st_text_option, next_tuner, "SYMTUNER_NEXT_TUNER", "", "text",                               \
      "tuner to run behind symtuner's, named as in NCCL_TUNER_PLUGIN; none: no tuner; unset: the " \
      "tuner that NCCL would have loaded (docs/reference/chaining.md)")                            \
    X(st_text_option, next_profiler, "SYMTUNER_NEXT_PROFILER", "", "text",                         \
      "profiler to run behind symtuner's, named as in NCCL_PROFILER_PLUGIN; none: no profiler; "   \
      "unset: the profiler that NCCL would have loaded (docs/reference/chaining.md)")              \
    X(st_text_option, ledger, "SYMTUNER_LEDGER", "", "text",                                       \
      "plugin, drop-in: file that gets the counters when a communicator ends or the program "      \
      "exits; %p is the process, %h the host")                                                     \
    X(enum st_signal, ledger_signal, "SYMTUNER_LEDGER_SIGNAL", "", "|USR1|USR2",                   \
      "signal that appends the counters to SYMTUNER_LEDGER at once")                               \
    X(enum st_log, log, "SYMTUNER_LOG", "info", "info|warn|off",                                   \
      "which messages go to NCCL's log; warnings that NCCL would drop, and those of the drop-in, " \
      "go to stderr")                                                                              \
    X(st_text_option, machine, "SYMTUNER_MACHINE", "", "text",                                     \
      "description of the box, used instead of asking the driver: \"gpu=NVIDIA H200; gpus=2; "     \
      "links=nvlink; multicast=no\"")                                                              \
    X(st_text_option, only, "SYMTUNER_ONLY", "allreduce", "text",                                  \
      "drop-in, JAX package: the collectives that may run on our kernels, such as "                \
      "allreduce,reducescatter,allgather; few sizes of reducescatter and allgather were timed")    \
    X(st_text_option, verify, "SYMTUNER_VERIFY", "0", "text",                                      \
      "drop-in: our kernels and NCCL both run the first N calls of each collective, and the "      \
      "results are compared; N is at most 500")                                                    \
    X(st_text_option, max_comms, "SYMTUNER_MAX_COMMS", "", "text",                                 \
      "drop-in: how many communicators of a GPU may use our kernels at a time, so that their "     \
      "calls fit on the GPU side by side; unset: 2, or more if SYMTUNER_AR_MAX_CTAS limits the "   \
      "CTAs of a call to less than 100")                                                           \
    X(st_text_option, run_file, "SYMTUNER_RUN_FILE", "", "text",                                   \
      "drop-in, JAX package: file of a job's counters; `symtuner run` creates it and sets this "   \
      "variable")                                                                                  \
    X(st_text_option, run_only, "SYMTUNER_RUN_ONLY", "", "text",                                   \
      "list of parts, which symtuner run --only sets; a symtuner run inside the program adds no "  \
      "part that is not in this list")                                                             \
    X(st_text_option, doctor_accept, "SYMTUNER_DOCTOR_ACCEPT", "", "text",                         \
      "symtuner doctor: findings that you accept, as ID,ID; they are shown, but do not count")     \
    X(st_text_option, lib_dir, "SYMTUNER_LIB_DIR", "", "text",                                     \
      "JAX package: folder of libsymtuner_ffi.so and libsymtuner_ar.so (docs/jax.md)")             \
    X(st_text_option, jax, "SYMTUNER_JAX", "0", "0|1|report",                                      \
      "JAX package: 1: use our kernels in every JAX program, which need not change; report: as "   \
      "1, and print at the end which calls were replaced (docs/jax.md)")                           \
    X(bool, jax_zero_copy, "SYMTUNER_JAX_ZERO_COPY", "1", "1|0",                                   \
      "JAX package: 0: calls never use XLA's buffers in place (docs/jax.md)")                      \
    X(st_text_option, jax_comm, "SYMTUNER_JAX_COMM", "own", "own|auto|xla",                        \
      "JAX package, several processes: own: our calls use an NCCL communicator of their own; "     \
      "xla: they use XLA's; auto: XLA's if XLA offers it (docs/jax.md)")                           \
    X(st_text_option, jax_command_buffers, "SYMTUNER_JAX_COMMAND_BUFFERS", "auto", "auto|1|0",     \
      "JAX package: which calls XLA may record into CUDA graphs: auto: those of up to 12 MiB "     \
      "within one process, and of up to 1 MiB across processes; 0: none; 1: others, too "          \
      "(docs/reference/jax-runtime.md)")                                                           \
    X(bool, jax_strict, "SYMTUNER_JAX_STRICT", "0", "1|0",                                         \
      "JAX package: 1: fail where jax.lax would run instead of our kernels (docs/jax.md)")

struct st_options {
#define ST_OPTION_MEMBER(type, member, variable, fallback, values, help) type member;
    ST_OPTION_MAP(ST_OPTION_MEMBER)
#undef ST_OPTION_MEMBER
};

/* Read all variables into ${options}. A wrong value is replaced by the default. Returns false if a
 * value was wrong, or if a variable SYMTUNER_* is set that is not in the table. ${error} then lists
 * the mistakes, separated by "; ", as many as fit. Variables that begin with SYMTUNER_AR_ belong to
 * the kernel library and are not checked here. Text options point into the environment, so call
 * this function once, before the program changes its environment. */
bool st_options_read(struct st_options *options, char *error, size_t error_size);

#endif
