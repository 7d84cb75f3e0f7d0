/* SPDX-License-Identifier: Apache-2.0 */
/* play.h - what the test programs that run under the drop-in share. */
#ifndef TEST_DROPIN_PLAY_H_
#define TEST_DROPIN_PLAY_H_

#include <dlfcn.h>
#include <stdlib.h>

#include "dropin/entry/known.h"
#include "test/dropin/fake/record.h"
#include "test/must.h"

/* One NCCL, as the program sees it. */
struct nccl {
    struct st_functions f;
    int (*future)(int);
    int (*id)(struct nccl_abi_id *);
    struct record *record;
};

/* Fill in the functions that the dynamic linker gave this program. */
void nccl_linked(struct nccl *nccl);
/* Fill in the functions that dlsym finds in ${library}. */
void nccl_opened(struct nccl *nccl, void *library);

/* Return the record of the fake kernels, or NULL if the drop-in has not opened them yet. */
struct record *kernels(void);

/* play_case runs the case with the name ${name}, and returns the exit status of the program. */
struct play_case {
    const char *name;
    void (*run)(void);
};
int play_case(const struct play_case *cases, size_t n, const char *name);

/* Return the text of a record, and empty the record. */
const char *said(struct record *record);
#define SAID(record, text)                                                                         \
    do {                                                                                           \
        const char *heard = said(record);                                                          \
                                                                                                   \
        if (strcmp(heard, text) != 0) {                                                            \
            fprintf(stderr, "%s:%d: heard \"%s\"\n         want \"%s\"\n", __FILE__, __LINE__,     \
                    heard, text);                                                                  \
            exit(1);                                                                               \
        }                                                                                          \
    } while (0)

enum { F32 = 7, SUM = 0 };

#endif
