/* SPDX-License-Identifier: Apache-2.0 */
#include "plugin/env.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "plugin/ranks/agree.h"
#include "plugin/process.h"

enum { NAME_MAX_NCCL = 254 };

/* Return a name by which NCCL can open this library. NCCL cuts names at NAME_MAX_NCCL bytes. If our
 * path is longer, the name alone is enough, because the loader finds a library that is already
 * loaded by its SONAME. */
static const char *own_path(void)
{
    Dl_info info;

    if (!dladdr((void *)(uintptr_t)own_path, &info))
        return NULL;
    return strlen(info.dli_fname) <= NAME_MAX_NCCL ? info.dli_fname : "libsymtuner.so";
}

static const char *tuner(void)
{
    return st_process_wants_tuner() ? own_path() : NULL;
}

static const char *profiler(void)
{
    return st_process_wants_profiler() ? own_path() : NULL;
}

static const char *count(int ctas)
{
    return ctas ? st_ctas_text(ctas) : NULL;
}

static const char *min_ctas(void)
{
    return count(st_process()->min_ctas);
}

static const char *sym_ctas(void)
{
    return count(st_agree_sym_ctas());
}

/* The variables whose values we may choose. ${chains}: we choose the value even if the user has set
 * the variable, and then load the user's library ourselves (plugin/next/open.h). But if the user
 * has set the variable to "none", NCCL gets "none". */
static const struct {
    const char *name;
    const char *(*answer)(void);
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
            answer = answers[i].answer();
        }
    return answer ? answer : value;
}
