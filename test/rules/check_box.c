/* SPDX-License-Identifier: Apache-2.0 */
/*
 * check_box.c - checks what symtuner_machine_find() finds: the machine that SYMTUNER_MACHINE
 * describes, this box, and invented boxes.
 *
 * The linker replaces dlopen, dlsym and dlclose (WRAPPED in test/test.mk). While a test has an
 * invented box, NVML and the driver are the functions below.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "rules/box.h"
#include "test/suites.h"

static const struct {
    const char *text, *error; /* error is NULL if there is none */
    struct symtuner_machine machine;
} described[] = {
    {"gpu=NVIDIA H200; links=nvlink; multicast=no", NULL, {"NVIDIA H200", 0, 1, 0, 0}},
    {" multicast = yes ;links=pcie;gpu = \"A B\"", NULL, {"A B", 0, 0, 1, 0}},
    {"gpus = 8; gpu=x", NULL, {"x", 0, -1, -1, 8}},
    {"gpus=2..4", "SYMTUNER_MACHINE: gpus is one number here, not a range", {"", 0, -1, -1, 0}},
    {"gpus=..4", "SYMTUNER_MACHINE: gpus is one number here, not a range", {"", 0, -1, -1, 0}},
    {"gpus=two", "SYMTUNER_MACHINE: \"two\" is not a number from 0 to 1073741824",
     {"", 0, -1, -1, 0}},
    {"links=any", NULL, {"", 0, -1, -1, 0}},
    {";;", NULL, {"", 0, -1, -1, 0}},
    {"gpu", "SYMTUNER_MACHINE: \"gpu\" is neither [section] nor key = value", {"", 0, -1, -1, 0}},
    {"gpu=x; lnks=nvlink", "SYMTUNER_MACHINE: unknown key \"lnks\"; did you mean links?",
     {"", 0, -1, -1, 0}},
    {"links=infiniband", "SYMTUNER_MACHINE: unknown value \"infiniband\"; known: pcie, nvlink, any",
     {"", 0, -1, -1, 0}},
};

START_TEST(test_a_description_is_read_or_refused_whole)
{
    struct symtuner_machine machine;
    char error[SYMTUNER_ERROR_MAX] = "";
    int fine = st_machine_read(described[_i].text, &machine, error, sizeof error);

    ck_assert_str_eq(error, described[_i].error ? described[_i].error : "");
    ck_assert_int_eq(fine, described[_i].error == NULL);
    ck_assert_str_eq(machine.gpu, described[_i].machine.gpu);
    ck_assert_int_eq(machine.nvlink, described[_i].machine.nvlink);
    ck_assert_int_eq(machine.multicast, described[_i].machine.multicast);
    ck_assert_int_eq(machine.gpus, described[_i].machine.gpus);
    setenv("SYMTUNER_MACHINE", described[_i].text, 1);
    ck_assert_int_eq(symtuner_machine_find(&machine), fine);
    unsetenv("SYMTUNER_MACHINE");
    ck_assert_str_eq(machine.gpu, described[_i].machine.gpu);
}
END_TEST

START_TEST(test_a_description_that_is_too_long_is_refused)
{
    struct symtuner_machine machine;
    char text[1024], error[SYMTUNER_ERROR_MAX] = "";

    memset(text, ' ', sizeof text - 1);
    text[sizeof text - 1] = '\0';
    ck_assert(!st_machine_read(text, &machine, error, sizeof error));
    ck_assert_msg(strncmp(error, "SYMTUNER_MACHINE: longer than ", 30) == 0, "%s", error);
}
END_TEST

/* ---- invented boxes ------------------------------------------------------------------------- */

struct gpu {
    const char *name;
    int major, minor;
    unsigned links;   /* bit i: link i is on */
    unsigned unknown; /* bit i: NVML has no link i */
    const char *lost; /* the name of the call that fails for this GPU */
};

static const struct box {
    const char *what;
    struct gpu gpu[3];
    int gpus;
    const char *fails;            /* the name of the call that fails */
    const char *lacks;            /* the symbol or library that is missing */
    const char *nvls;             /* NCCL_NVLS_ENABLE                    */
    int multicast;                /* the driver's multicast attribute    */
    struct symtuner_machine want; /* all members but gpus; name "": the machine is unknown */
} boxes[] = {
#define H200(links) {"NVIDIA H200", 9, 0, links, 0, NULL}
#define LOST(call) {"gone", 0, 0, 0, 0, call}
#define ALL 0x3ffff /* the 18 links of NVML_NVLINK_MAX_LINKS */
#define TWO .gpu = {H200(ALL), H200(ALL)}, .gpus = 2
#define KNOWN(nvlink, multicast) {"NVIDIA H200", 90, nvlink, multicast, 0}
#define UNKNOWN {"", 0, -1, -1, 0}
    {"two alike", TWO, .want = KNOWN(1, 0)},
    {"an L40S", {{"NVIDIA L40S", 8, 9, 0, ALL, NULL}}, 1, .want = {"NVIDIA L40S", 89, 0, 0, 0}},
    {"links are off", {H200(0)}, 1, .want = KNOWN(0, 0)},
    {"the first link is on", {H200(1)}, 1, .want = KNOWN(1, 0)},
    {"the last link is on", {H200(1u << 17)}, 1, .want = KNOWN(1, 0)},
    {"on, says a call that failed", {{"NVIDIA H200", 9, 0, ALL, ALL, NULL}}, 1,
     .want = KNOWN(0, 0)},
    {"other names", {H200(1), {"NVIDIA H100", 9, 0, 1, 0, NULL}}, 2, .want = UNKNOWN},
    {"another between", {H200(1), {"NVIDIA H100", 9, 0, 1, 0, NULL}, H200(1)}, 3, .want = UNKNOWN},
    {"links of one only", {H200(1), H200(0)}, 2, .want = UNKNOWN},
    {"first one lost", {LOST("nvmlDeviceGetHandleByIndex_v2"), H200(1)}, 2, .want = KNOWN(1, 0)},
    {"one without a name", {H200(1), LOST("nvmlDeviceGetName")}, 2, .want = KNOWN(1, 0)},
    {"one of no generation", {LOST("nvmlDeviceGetCudaComputeCapability"), H200(1)}, 2,
     .want = KNOWN(1, 0)},
    {"no GPU", .gpus = 0, .want = UNKNOWN},
    {"NVML does not start", TWO, .fails = "nvmlInit_v2", .want = UNKNOWN},
    {"NVML cannot count", TWO, .fails = "nvmlDeviceGetCount_v2", .want = UNKNOWN},
    {"no NVML", TWO, .lacks = "libnvidia-ml.so.1", .want = UNKNOWN},
    {"an NVML too old", TWO, .lacks = "nvmlDeviceGetNvLinkState", .want = UNKNOWN},
    {"multicast", TWO, .multicast = 1, .want = KNOWN(1, 1)},
    {"multicast, kept", TWO, .multicast = 1, .nvls = "1", .want = KNOWN(1, 1)},
    {"multicast, and NCCL may not", TWO, .multicast = 1, .nvls = "0",
     .want = KNOWN(1, 0)},
    {"no driver", TWO, .lacks = "libcuda.so.1", .want = KNOWN(1, -1)},
    {"a driver too old", TWO, .lacks = "cuDeviceGetAttribute", .want = KNOWN(1, -1)},
    {"the driver does not start", TWO, .multicast = 1, .fails = "cuInit",
     .want = KNOWN(1, -1)},
    {"no device for us", TWO, .multicast = 1, .fails = "cuDeviceGet",
     .want = KNOWN(1, -1)},
    {"no such attribute", TWO, .multicast = 1, .fails = "cuDeviceGetAttribute",
     .want = KNOWN(1, -1)},
};

static const struct box *box; /* NULL: the real box is used */
static int nvml_running, nvml_loaded;

/* Return what function ${call} of NVML or the driver returns: 0, or an error if ${box} says so. */
static int goes(const char *call)
{
    return box->fails && strcmp(box->fails, call) == 0 ? 999 : 0;
}

static int goes_for(const struct gpu *gpu, const char *call)
{
    /* NVML may be called only between its init and its shutdown */
    ck_assert_int_eq(nvml_running, 1);
    return gpu->lost && strcmp(gpu->lost, call) == 0 ? 999 : 0;
}

static int nvml_init(void)
{
    int wrong = goes("nvmlInit_v2");

    nvml_running += !wrong;
    return wrong;
}

static int nvml_shutdown(void)
{
    ck_assert_int_eq(nvml_running--, 1);
    return 0;
}

static int nvml_count(unsigned *count)
{
    /* the fake writes the count even if the call fails; the caller must not read it then */
    *count = (unsigned)box->gpus;
    return goes("nvmlDeviceGetCount_v2");
}

static int nvml_handle(unsigned index, const struct gpu **gpu)
{
    ck_assert_uint_lt(index, (unsigned)box->gpus);
    *gpu = &box->gpu[index];
    return goes_for(*gpu, "nvmlDeviceGetHandleByIndex_v2");
}

static int nvml_name(const struct gpu *gpu, char *name, unsigned size)
{
    snprintf(name, size, "%s", gpu->name);
    return goes_for(gpu, "nvmlDeviceGetName");
}

static int nvml_capability(const struct gpu *gpu, int *major, int *minor)
{
    *major = gpu->major;
    *minor = gpu->minor;
    return goes_for(gpu, "nvmlDeviceGetCudaComputeCapability");
}

static int nvml_link(const struct gpu *gpu, unsigned link, int *on)
{
    ck_assert_uint_lt(link, 18); /* 18 is NVML_NVLINK_MAX_LINKS */
    *on = gpu->links >> link & 1;
    return gpu->unknown >> link & 1 ? 999 : 0;
}

static int cu_init(unsigned flags)
{
    return flags == 0 ? goes("cuInit") : 1;
}

static int cu_device(int *device, int ordinal)
{
    *device = 70 + ordinal;
    return goes("cuDeviceGet");
}

static int cu_attribute(int *value, int attribute, int device)
{
    *value = attribute == 132 && device == 70 ? box->multicast : 77;
    return goes("cuDeviceGetAttribute");
}

static const struct {
    const char *name;
    void (*function)(void);
} symbols[] = {
    {"nvmlInit_v2", (void (*)(void))nvml_init},
    {"nvmlShutdown", (void (*)(void))nvml_shutdown},
    {"nvmlDeviceGetCount_v2", (void (*)(void))nvml_count},
    {"nvmlDeviceGetHandleByIndex_v2", (void (*)(void))nvml_handle},
    {"nvmlDeviceGetName", (void (*)(void))nvml_name},
    {"nvmlDeviceGetCudaComputeCapability", (void (*)(void))nvml_capability},
    {"nvmlDeviceGetNvLinkState", (void (*)(void))nvml_link},
    {"cuInit", (void (*)(void))cu_init},
    {"cuDeviceGet", (void (*)(void))cu_device},
    {"cuDeviceGetAttribute", (void (*)(void))cu_attribute},
};

/* &libraries[0] is the dlopen handle of the fake NVML, &libraries[1] that of the fake driver */
static char libraries[2];

void *__real_dlopen(const char *file, int flags);
void *__real_dlsym(void *library, const char *name);
int __real_dlclose(void *library);
void *__wrap_dlopen(const char *file, int flags);
void *__wrap_dlsym(void *library, const char *name);
int __wrap_dlclose(void *library);

/* What dlopen and dlsym call first; NULL: nothing. */
extern void (*box_look_up)(void);
void (*box_look_up)(void);

static void look_up(void)
{
    if (box_look_up)
        box_look_up();
}

void *__wrap_dlopen(const char *file, int flags)
{
    bool nvml = file && strcmp(file, "libnvidia-ml.so.1") == 0;

    look_up();
    if (!box || (!nvml && (!file || strcmp(file, "libcuda.so.1") != 0)))
        return __real_dlopen(file, flags);
    if (box->lacks && strcmp(box->lacks, file) == 0)
        return NULL;
    nvml_loaded += nvml;
    return &libraries[nvml ? 0 : 1];
}

void *__wrap_dlsym(void *library, const char *name)
{
    look_up();
    if (library != &libraries[0] && library != &libraries[1])
        return __real_dlsym(library, name);
    for (size_t i = 0; i < sizeof symbols / sizeof *symbols; i++)
        if (strcmp(symbols[i].name, name) == 0 && !(box->lacks && strcmp(box->lacks, name) == 0))
            return *(void **)&symbols[i].function;
    return NULL;
}

int __wrap_dlclose(void *library)
{
    if (library != &libraries[0] && library != &libraries[1])
        return __real_dlclose(library);
    nvml_loaded -= library == &libraries[0];
    return 0;
}

START_TEST(test_a_box_is_what_all_its_gpus_are)
{
    struct symtuner_machine machine;
    int known, gpus = 0;

    unsetenv("SYMTUNER_MACHINE");
    unsetenv("NCCL_NVLS_ENABLE");
    box = &boxes[_i];
    for (int i = 0; i < box->gpus; i++)
        gpus += !box->gpu[i].lost;
    if (box->nvls)
        setenv("NCCL_NVLS_ENABLE", box->nvls, 1);
    known = symtuner_machine_find(&machine);
    ck_assert_msg(known == (box->want.gpu[0] != '\0'), "%s: known %d", box->what, known);
    ck_assert_msg(strcmp(machine.gpu, box->want.gpu) == 0 && machine.arch == box->want.arch &&
                      machine.nvlink == box->want.nvlink &&
                      machine.multicast == box->want.multicast,
                  "%s: \"%s\", sm_%d, links %d, multicast %d", box->what, machine.gpu, machine.arch,
                  machine.nvlink, machine.multicast);
    ck_assert_msg(machine.gpus == (known ? gpus : 0), "%s: %d GPUs", box->what, machine.gpus);
    ck_assert_msg(nvml_running == 0 && nvml_loaded == 0, "%s: NVML stays", box->what);
    box = NULL;
    unsetenv("NCCL_NVLS_ENABLE");
}
END_TEST

START_TEST(test_finding_says_unknown_or_something_sensible)
{
    struct symtuner_machine machine;

    unsetenv("SYMTUNER_MACHINE");
    if (symtuner_machine_find(&machine)) { /* this box has GPUs */
        ck_assert_str_ne(machine.gpu, "");
        ck_assert_int_gt(machine.arch, 0);
        ck_assert_int_ge(machine.nvlink, 0);
        ck_assert_int_gt(machine.gpus, 0);
    } else {
        ck_assert_str_eq(machine.gpu, "");
        ck_assert_int_eq(machine.arch, 0);
        ck_assert_int_eq(machine.nvlink, -1);
        ck_assert_int_eq(machine.multicast, -1);
        ck_assert_int_eq(machine.gpus, 0);
    }
}
END_TEST

Suite *machine_suite(void)
{
    Suite *suite = suite_create("machine");
    TCase *text = tcase_create("description"), *this_box = tcase_create("this box");
    TCase *made_up = tcase_create("made up");

    t_add_rows(text, test_a_description_is_read_or_refused_whole, described);
    tcase_add_test(text, test_a_description_that_is_too_long_is_refused);
    t_add_rows(made_up, test_a_box_is_what_all_its_gpus_are, boxes);
    tcase_add_test(this_box, test_finding_says_unknown_or_something_sensible);
    suite_add_tcase(suite, text);
    suite_add_tcase(suite, made_up);
    suite_add_tcase(suite, this_box);
    return suite;
}
