/* SPDX-License-Identifier: Apache-2.0 */
/*
 * options.h - the SYMTUNER_* variables: one row each, read once.
 *
 * `symtuner env` and docs/env.md are printed from the same rows. The last rows are those of
 * the doctor and of the JAX package: the plugin only knows that they exist, so that it does not call them misspelt.
 */
#ifndef ST_OPTIONS_H_
#define ST_OPTIONS_H_

#include <stdbool.h>
#include <stddef.h>

/* X(member, variable, default, legal values, help); a word list is checked, "text" is not. */
#define ST_OPTION_MAP(X)                                                                           \
    X(mode, "SYMTUNER_MODE", "steer", "steer|observe|off",                                         \
      "steer: act; observe: count and report, change nothing; off: be silent")                     \
    X(rules, "SYMTUNER_RULES", "", "text",                                                         \
      "path of a rules file (docs/rules.md), read by the plugin and by libsymtuner_ar.so; or of "  \
      "a CSV of NCCL's example tuner (*.csv)")                                                     \
    X(rule, "SYMTUNER_RULE", "", "text",                                                           \
      "rules on one line, before those of the file: \"allreduce bytes=..64KiB "                    \
      "prefer=general:ring/ll; process sym-ctas=16\"")                                             \
    X(defaults, "SYMTUNER_DEFAULTS", "1", "1|0",                                                   \
      "0: do not use the built-in defaults (measured boxes only; symtuner env --defaults)")        \
    X(strict, "SYMTUNER_STRICT", "0", "1|0",                                                       \
      "1: wrong rules fail communicator creation on this rank; for CI, not for jobs")              \
    X(setenv, "SYMTUNER_SETENV", "1", "1|0",                                                       \
      "0: never put NCCL_SYM_CTAS into the environment (done once, in the first tuner init, "      \
      "only where unset and only without NCCL_ENV_PLUGIN)")                                        \
    X(percall, "SYMTUNER_PERCALL", "0", "1|0",                                                     \
      "1: symmetric CTAs per call, NCCL >= 2.29.7 with NCCL_ENV_PLUGIN (docs/steering.md)")        \
    X(ledger, "SYMTUNER_LEDGER", "", "text",                                                       \
      "file that gets the counters when a communicator ends; %p is the process, %h the host")      \
    X(ledger_signal, "SYMTUNER_LEDGER_SIGNAL", "", "|USR1|USR2",                                   \
      "signal that appends the counters to SYMTUNER_LEDGER at once")                               \
    X(log, "SYMTUNER_LOG", "info", "info|warn|off",                                                \
      "what to say through NCCL's log; a warning also goes to stderr when NCCL_DEBUG is unset")    \
    X(machine, "SYMTUNER_MACHINE", "", "text",                                                     \
      "describe the box instead of looking: \"gpu=NVIDIA H200; links=nvlink; multicast=no\"")      \
    X(doctor_accept, "SYMTUNER_DOCTOR_ACCEPT", "", "text",                                         \
      "symtuner doctor: findings that you know, as ID,ID: shown, but they do not count")           \
    X(lib_dir, "SYMTUNER_LIB_DIR", "", "text",                                                     \
      "JAX package: folder of libsymtuner_ffi.so and libsymtuner_ar.so (docs/jax.md)")             \
    X(jax_zero_copy, "SYMTUNER_JAX_ZERO_COPY", "1", "1|0",                                         \
      "JAX package: 0: calls never use XLA's buffers in place (docs/jax.md)")                      \
    X(jax_comm, "SYMTUNER_JAX_COMM", "own", "own|auto|xla",                                        \
      "JAX package, several processes: XLA's NCCL communicator or one of our own (docs/jax.md)")   \
    X(jax_command_buffers, "SYMTUNER_JAX_COMMAND_BUFFERS", "auto", "auto|1|0",                     \
      "JAX package: which calls XLA may record into CUDA graphs (docs/jax.md)")

struct st_options {
#define ST_OPTION_MEMBER(member, variable, fallback, values, help) const char *member;
    ST_OPTION_MAP(ST_OPTION_MEMBER)
#undef ST_OPTION_MEMBER
};

/* Read all variables. A wrong value is replaced by the default and described in ${error}, as is a
 * SYMTUNER_ variable that does not exist (SYMTUNER_AR_ belongs to the kernel library); returns
 * false then. Each is named, separated by "; ", as far as they fit. The strings are the
 * environment's: read once, early. */
bool st_options_read(struct st_options *options, char *error, size_t error_size);

#endif
