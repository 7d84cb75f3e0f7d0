/* SPDX-License-Identifier: Apache-2.0 */
/* memops.c - cuStreamWaitValue64 and cuStreamWriteValue64 for the CUDA runtime on the CPU (cuda.c).
 * The library gets these functions of the driver by cudaGetDriverEntryPointByVersion. */
#include <stdlib.h>
#include <string.h>

#include "test/kernels/fake/memory.h"
#include "test/whole/stream.h"

enum { CAN_USE_64_BIT_STREAM_MEM_OPS = 122 };

static int get_attribute(int *value, int attribute, int device)
{
    (void)device;
    *value = attribute == CAN_USE_64_BIT_STREAM_MEM_OPS &&
             (getenv("WHOLE_NO_MEMOPS") == NULL || *getenv("WHOLE_NO_MEMOPS") == 0);
    return 0;
}

/* Wait for a word. With ${flags} 0, wait until the word is at least ${value}. */
static int wait_value(cudaStream_t stream, unsigned long long word, uint64_t value, unsigned flags)
{
    return flags != 0 || word % 8 != 0 ||
           whole_queue(stream, (struct op){.kind = AWAIT_WORD,
                                           .from = (const void *)(uintptr_t)word,
                                           .value = (int)value}) != cudaSuccess;
}

static int write_value(cudaStream_t stream, unsigned long long word, uint64_t value, unsigned flags)
{
    return flags != 0 || word % 8 != 0 ||
           whole_queue(stream, (struct op){.kind = WRITE_WORD,
                                           .to = (void *)(uintptr_t)word,
                                           .value = (int)value}) != cudaSuccess;
}

#if CUDART_VERSION >= 12050
cudaError_t cudaGetDriverEntryPointByVersion(const char *symbol, void **function, unsigned version,
                                             unsigned long long flags,
                                             enum cudaDriverEntryPointQueryResult *found)
{
    static const struct {
        const char *name;
        void (*function)(void);
    } known[] = {
        {"cuDeviceGetAttribute", (void (*)(void))get_attribute},
        {"cuStreamWaitValue64", (void (*)(void))wait_value},
        {"cuStreamWriteValue64", (void (*)(void))write_value},
    };
    void (*memory)(void);

    (void)version, (void)flags;
    *function = NULL;
    *found = cudaDriverEntryPointSymbolNotFound;
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (strcmp(symbol, known[i].name) == 0) {
            memcpy(function, &known[i].function, sizeof *function);
            *found = cudaDriverEntryPointSuccess;
        }
    memory = fake_driver(symbol);
    if (memory != NULL) {
        memcpy(function, &memory, sizeof *function);
        *found = cudaDriverEntryPointSuccess;
    }
    return cudaSuccess;
}
#endif
