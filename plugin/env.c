/* SPDX-License-Identifier: Apache-2.0 */
#include "plugin/env.h"

#include <dlfcn.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "nccl/names.h"
#include "plugin/ranks/agree.h"
#include "plugin/process.h"

/* Return a name by which NCCL can open this library. That is our path, unless it is so long that
 * NCCL would cut it (ST_NCCL_NAME_MAX). For a long path the file name alone is enough: this library
 * is already loaded, and the loader finds it by its SONAME. */
static const char *own_path(void)
{
    Dl_info info;

    if (!dladdr((void *)(uintptr_t)own_path, &info))
        return NULL;
    return strlen(info.dli_fname) <= ST_NCCL_NAME_MAX ? info.dli_fname : "libsymtuner.so";
}

/* The copies of NCCL in this process that ask us for variables. The address at which a copy is
 * loaded identifies it. */
enum { COPIES = 16 };
static struct {
    _Atomic(void *) base;
    atomic_int nccl;
} copies[COPIES];

static void *base_of(const void *code)
{
    Dl_info info;

    return dladdr(code, &info) ? info.dli_fbase : NULL;
}

void st_env_copy(const void *code, int nccl)
{
    void *base = base_of(code);

    for (int i = 0; i < COPIES && base; i++) {
        void *there = NULL;

        if (!atomic_compare_exchange_strong(&copies[i].base, &there, base) && there != base)
            continue;
        atomic_store(&copies[i].nccl, nccl);
        return;
    }
}

/* Return the release of the NCCL that contains the machine code ${code}. */
static int release_of(const void *code)
{
    void *base = base_of(code);

    for (int i = 0; i < COPIES && base; i++)
        if (atomic_load(&copies[i].base) == base && atomic_load(&copies[i].nccl))
            return atomic_load(&copies[i].nccl);
    return st_process()->nccl;
}

static const char *tuner(int nccl)
{
    return st_process_wants_tuner(nccl) ? own_path() : NULL;
}

static const char *profiler(int nccl)
{
    (void)nccl;
    return st_process_wants_profiler() ? own_path() : NULL;
}

static const char *count(int ctas)
{
    return ctas ? st_ctas_text(ctas) : NULL;
}

static const char *min_ctas(int nccl)
{
    return count(st_process_for(nccl).min_ctas);
}

static const char *sym_ctas(int nccl)
{
    return count(st_agree_sym_ctas(nccl));
}

/* The variables whose values we may choose. ${chains}: we choose the value even if the user has set
 * the variable, and then load the user's library ourselves (plugin/next/open.h). But if the user
 * has set the variable to "none", NCCL gets "none". */
static const struct {
    const char *name;
    const char *(*answer)(int nccl);
    bool chains;
} answers[] = {
    {"NCCL_TUNER_PLUGIN", tuner, true},
    {"NCCL_PROFILER_PLUGIN", profiler, true},
    {"NCCL_MIN_CTAS", min_ctas, false},
    {"NCCL_SYM_CTAS", sym_ctas, false},
};

const char *st_env_get(const char *name)
{
    const char *value = getenv(name), *answer = NULL;

    for (size_t i = 0; i < sizeof answers / sizeof *answers; i++)
        if (strcmp(answers[i].name, name) == 0 &&
            (!value || (answers[i].chains && strcasecmp(value, "none") != 0))) {
            st_process_asked();
            answer = answers[i].answer(release_of(__builtin_return_address(0)));
        }
    return answer ? answer : value;
}
