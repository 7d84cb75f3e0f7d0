/* SPDX-License-Identifier: Apache-2.0 */
/*
 * real.h - finds the NCCL that a program would have called without the drop-in.
 *
 * A process may have loaded several copies of NCCL. Each copy gets an entry when it is first looked
 * up. The entry stays valid, because the drop-in holds a reference to the copy, so that it is never
 * unloaded. A call goes to the copy that the dynamic linker would have found for the caller. The
 * linker first searches the libraries of the global scope that come after the drop-in, including
 * preloaded ones. Then it searches the libraries that the caller is linked with.
 *
 * Threads    any thread may call all functions. A look-up takes no lock if the entry exists.
 */
#ifndef ST_REAL_H_
#define ST_REAL_H_

#include <stdbool.h>
#include <stdint.h>

#include "dropin/entry/known.h"

/* If a process has more copies, the drop-in does not follow the others: their calls go straight to
 * them. */
enum { ST_REALS = 4 };

struct st_real {
    int index;     /* ST_REALS: the drop-in does not follow this copy */
    void *library; /* handle of dlopen */
    const void *base;
    const char *path;
    int version;              /* NCCL release, such as 22809; 0: unknown */
    uintptr_t text, text_end; /* where the code of this NCCL begins and ends */
    nccl_abi_result (*comm_count)(void *comm, int *ranks);
    nccl_abi_result (*comm_rank)(void *comm, int *rank);
    nccl_abi_result (*comm_device)(void *comm, int *device);
    union {
        struct st_functions call;
        void *function[ST_KNOWN];
    };
    struct st_real *next; /* another copy that the drop-in does not follow */
};

extern struct st_real st_reals[ST_REALS];

/* Where a call comes from. This tells which copy of NCCL the call is for. If the program got our
 * function from dlsym, the function is for one copy (st_wrapper), and ${real} is that copy. If the
 * dynamic linker bound the program to our exported function, ${real} is NULL, and the copy depends
 * on ${caller}, the return address. */
struct st_from {
    struct st_real *real;
    const void *caller;
};

/* Return the copy of NCCL that a call is for; NULL if there is none. */
struct st_real *st_real_of(struct st_from from);

/* Return the copy of NCCL that contains ${symbol}. Returns NULL if no copy does, or if the drop-in
 * does not follow that copy. */
struct st_real *st_real_at(const void *symbol);

/* Did NCCL ${real} itself make this call? */
static inline bool st_real_calls(const struct st_real *real, const void *caller)
{
    return (uintptr_t)caller - real->text < real->text_end - real->text;
}

/* st_real_dlsym returns the C library's dlsym, even if other libraries define a dlsym, too. */
typedef void *st_dlsym(void *library, const char *name);
st_dlsym *st_real_dlsym(void);

/* Return the number of the function with this name; -1 if we do not intercept it. */
int st_known_find(const char *name);
extern const char *const st_known_name[ST_KNOWN];

#endif
