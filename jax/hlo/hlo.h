/* SPDX-License-Identifier: Apache-2.0 */
/*
 * hlo.h - replace collectives in a serialized HloModuleProto by the custom calls of symtuner_ffi.h.
 *
 * jax/symtuner/_hlo.py calls these functions by ctypes, while XLA compiles a program. It opens the
 * module, asks for each collective, names the custom calls that replace some of them, and gets the
 * edited module. What we do not understand is copied byte for byte. The input may be any bytes.
 */
#ifndef HLO_HLO_H_
#define HLO_HLO_H_

#include <stddef.h>
#include <stdint.h>

#define SYMTUNER_HLO_API __attribute__((visibility("default")))

struct symtuner_hlo;

/* One collective of a module. */
struct symtuner_hlo_call {
    char name[128];
    char where[512]; /* "file:line" of the program; "" if the module does not say it */
    /* Why we leave the collective to XLA; "" if it can be replaced. If we leave it to XLA, only
     * ${coll} and ${column} of the members below are always set. */
    char why[128];
    int64_t bytes; /* size of the operand on each rank */
    int32_t coll;  /* enum symtuner_ar_coll */
    int32_t op;    /* ncclRedOp_t */
    int32_t rows, ranks;
    int32_t column; /* column in the line of ${where}; 0 if the module does not say it */
    int32_t unused;
    const int64_t *groups; /* ${rows} rows of ${ranks} device ids */
    const int64_t *places; /* the same devices as positions in the program's list of devices */
};

/* Read a module. ${bytes} must live until symtuner_ffi_hlo_close(). Returns 0, or -1 with a
 * sentence in ${why}. */
SYMTUNER_HLO_API int symtuner_ffi_hlo_open(const void *bytes, size_t size,
                                           struct symtuner_hlo **module, char *why,
                                           size_t why_size);

/* Return the largest number of bytes of an all-reduce that is replaced even if XLA could run it
 * beside matrix products. */
SYMTUNER_HLO_API int64_t symtuner_ffi_hlo_long(void);

/* Write the module's name. Returns 0. */
SYMTUNER_HLO_API int symtuner_ffi_hlo_name(const struct symtuner_hlo *module, char *text,
                                           size_t size);

/* Fill ${call}, whose pointers are valid until the module is closed. ${i} counts from 0. Returns 0,
 * or -1 if the module has no collective ${i}. */
SYMTUNER_HLO_API int symtuner_ffi_hlo_call(const struct symtuner_hlo *module, int i,
                                           struct symtuner_hlo_call *call);

/* Replace collective ${i} by a call of ${target}. ${flat}: give the call the attribute "flat"
 * (symtuner_ffi.h). Returns 0, or -1 if it cannot be replaced. */
SYMTUNER_HLO_API int symtuner_ffi_hlo_replace(struct symtuner_hlo *module, int i,
                                              const char *target, int flat);

/* Return how many of our custom calls were in the module when it was opened and have operands that
 * nothing else needs. symtuner_ffi_hlo_write() lets these calls put their results into the buffers
 * of their operands. */
SYMTUNER_HLO_API int symtuner_ffi_hlo_in_place(const struct symtuner_hlo *module);

/* One call that several all-reduces of a module share. */
struct symtuner_hlo_joined {
    int32_t count; /* how many all-reduces share it; 0: it was undone */
    int32_t unused;
    const char *attributes; /* ${size} bytes: the attributes of the call, as XLA prints them */
    size_t size;
};

/* Decide which small all-reduces share calls. Two kinds can: those that symtuner_ffi_hlo_replace()
 * replaced, and our custom calls that were in the module when it was opened. Call this after
 * symtuner_ffi_hlo_replace(). Returns 0, or -1 with a sentence in ${why}. */
SYMTUNER_HLO_API int symtuner_ffi_hlo_join(struct symtuner_hlo *module, char *why, size_t why_size);

/* Fill ${joined} for shared call ${i}, which counts from 0. Returns 0, or -1 if there is none. */
SYMTUNER_HLO_API int symtuner_ffi_hlo_joined(const struct symtuner_hlo *module, int i,
                                             struct symtuner_hlo_joined *joined);

/* Undo shared call ${i}, so that each of its all-reduces has a call of its own. Returns 0, or -1 if
 * there is no such call. */
SYMTUNER_HLO_API int symtuner_ffi_hlo_part(struct symtuner_hlo *module, int i);

/* Set *bytes and *size to the edited module. The bytes are valid until the module is closed.
 * Returns 0, or -1 with a sentence in ${why}. */
SYMTUNER_HLO_API int symtuner_ffi_hlo_write(struct symtuner_hlo *module, const void **bytes,
                                            size_t *size, char *why, size_t why_size);

/* Close the module and free what it holds. NULL: does nothing. */
SYMTUNER_HLO_API void symtuner_ffi_hlo_close(struct symtuner_hlo *module);

#endif
