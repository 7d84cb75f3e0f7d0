/* SPDX-License-Identifier: Apache-2.0 */
/*
 * box.c - finds the GPUs of this box, through NVML and the CUDA driver if they are installed.
 *
 * Every rank must find the same machine, although ranks may use different GPUs of the box. NVML
 * shows all GPUs to every process. The CUDA driver shows a process only the GPUs that it may use.
 * We ask the driver about one GPU only, because a box with GPUs of different models counts as
 * unknown anyway. Several threads may look at once: NVML counts who has initialised it, and its
 * functions and the driver's may be called from several threads.
 */
#include "rules/box.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "rules/rules.h"

/* The functions of NVML that we call. 0 means success, and handles are pointers. The signatures are
 * those that nvml.h has for the names in ask_nvml. */
struct nvml {
    int (*init)(void);
    int (*shutdown)(void);
    int (*count)(unsigned *);
    int (*handle)(unsigned, void **);
    int (*name)(void *, char *, unsigned);
    int (*capability)(void *, int *, int *);
    int (*link_state)(void *, unsigned, int *);
};

static void *load(const char *file, const char *const *symbol, void **function, int count)
{
    void *library = dlopen(file, RTLD_NOW | RTLD_LOCAL);

    for (int i = 0; library && i < count; i++) {
        function[i] = dlsym(library, symbol[i]);
        if (!function[i]) {
            dlclose(library);
            library = NULL;
        }
    }
    return library;
}

enum { LINKS_MAX = 18 }; /* NVML_NVLINK_MAX_LINKS */

static bool has_nvlink(const struct nvml *nvml, void *device)
{
    int on = 0;

    for (unsigned link = 0; link < LINKS_MAX; link++)
        if (nvml->link_state(device, link, &on) == 0 && on)
            return true;
    return false;
}

static bool ask_nvml(struct symtuner_machine *machine)
{
    static const char *const symbol[] = {
        "nvmlInit_v2",          "nvmlShutdown",
        "nvmlDeviceGetCount_v2", "nvmlDeviceGetHandleByIndex_v2",
        "nvmlDeviceGetName",    "nvmlDeviceGetCudaComputeCapability",
        "nvmlDeviceGetNvLinkState"};
    struct nvml nvml;
    void *library = load("libnvidia-ml.so.1", symbol, (void **)&nvml, 7), *device;
    unsigned count = 0;
    bool found = false;

    _Static_assert(sizeof nvml == 7 * sizeof(void *), "one pointer per symbol");
    if (!library)
        return false;
    if (nvml.init() == 0) {
        if (nvml.count(&count) != 0)
            count = 0;
        for (unsigned i = 0; i < count; i++) {
            char name[sizeof machine->gpu] = "";
            int major = 0, minor = 0, nvlink;

            if (nvml.handle(i, &device) != 0 || nvml.name(device, name, sizeof name) != 0 ||
                nvml.capability(device, &major, &minor) != 0)
                continue;
            nvlink = has_nvlink(&nvml, device);
            if (found && (strcmp(machine->gpu, name) != 0 || machine->nvlink != nvlink)) {
                found = false; /* the box has different GPUs, so it counts as unknown */
                break;
            }
            found = true;
            strcpy(machine->gpu, name);
            machine->arch = major * 10 + minor;
            machine->nvlink = nvlink;
            machine->gpus++;
        }
        nvml.shutdown();
    }
    dlclose(library);
    return found;
}

/* Ask whether NCCL may use NVLink multicast: 1 yes, 0 no, -1 unknown. Reads an attribute of GPU 0
 * and creates no multicast object. */
static int ask_multicast(void)
{
    static const char *const symbol[] = {"cuInit", "cuDeviceGet", "cuDeviceGetAttribute"};
    enum { MULTICAST_SUPPORTED = 132 }; /* CU_DEVICE_ATTRIBUTE_MULTICAST_SUPPORTED */
    struct {
        int (*init)(unsigned);
        int (*device)(int *, int);
        int (*attribute)(int *, int, int);
    } cuda;
    const char *nvls = getenv("NCCL_NVLS_ENABLE");
    int device, value = -1;
    void *library;

    if (nvls && strcmp(nvls, "0") == 0)
        return 0;
    library = load("libcuda.so.1", symbol, (void **)&cuda, 3);
    if (!library)
        return -1;
    if (cuda.init(0) != 0 || cuda.device(&device, 0) != 0 ||
        cuda.attribute(&value, MULTICAST_SUPPORTED, device) != 0)
        value = -1;
    return value; /* libcuda.so.1 stays loaded: cuInit has set it up for the whole process */
}

static void forget(struct symtuner_machine *machine)
{
    *machine = (struct symtuner_machine){.nvlink = -1, .multicast = -1};
}

bool st_machine_read(const char *text, struct symtuner_machine *machine, char *error, size_t size)
{
    char lines[512], wrong[SYMTUNER_ERROR_MAX], *what;
    symtuner_rules *rules;

    forget(machine);
    if ((size_t)snprintf(lines, sizeof lines, "[provenance]\n%s", text) >= sizeof lines) {
        snprintf(error, size, "SYMTUNER_MACHINE: longer than %zu bytes", sizeof lines - 16);
        return false;
    }
    for (char *c = lines; *c; c++)
        if (*c == ';')
            *c = '\n';
    if (symtuner_rules_parse(lines, "SYMTUNER_MACHINE", &rules, wrong, sizeof wrong) !=
        SYMTUNER_OK) {
        what = strstr(wrong, ": "); /* drop "LINE:COLUMN" from the error: a variable has no lines */
        snprintf(error, size, "SYMTUNER_MACHINE%s", what ? what : "");
        return false;
    }
    if (rules->provenance.gpus.lo == rules->provenance.gpus.hi) {
        machine->gpus = (int)rules->provenance.gpus.lo;
    } else if (rules->provenance.gpus.hi != UINT64_MAX || rules->provenance.gpus.lo) {
        snprintf(error, size, "SYMTUNER_MACHINE: gpus is one number here, not a range");
        symtuner_rules_free(rules);
        return false;
    }
    strcpy(machine->gpu, rules->provenance.gpu);
    machine->nvlink = rules->provenance.links;
    machine->multicast = rules->provenance.multicast;
    symtuner_rules_free(rules);
    return true;
}

int symtuner_machine_find(struct symtuner_machine *machine)
{
    const char *described = getenv("SYMTUNER_MACHINE");
    char error[SYMTUNER_ERROR_MAX];

    forget(machine);
    if (described && *described)
        return st_machine_read(described, machine, error, sizeof error);
    if (!ask_nvml(machine)) {
        forget(machine);
        return 0;
    }
    machine->multicast = ask_multicast();
    return 1;
}
