/* SPDX-License-Identifier: Apache-2.0 */
/*
 * check_nccl.c - checks what the library looks up at run time: whether an NCCL is new enough and
 * has all functions, what NVML says about two GPUs, and which machine this is. The linker replaces
 * dlopen and dlsym (AR_WRAPPED in test.mk).
 */
#include <check.h>
#include <dlfcn.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "kernels/group/links.h"
#include "kernels/group/nccl.h"
#include "kernels/choose/rules.h"
#include "kernels/choose/select.h"
#include "kernels/nodes/host_id.h"
#include "test/kernels/fake/capture_stderr.h"
#include "test/kernels/fake/cuda.h"
#include "test/kernels/fake/nccl.h"
#include "symtuner_ar.h"
#include "test/kernels/suites.h"
#include "test/base/loader.h"

static const char *lacks; /* the library or function that dlopen or dlsym does not find */
static bool no_nccl;      /* there is no libnccl.so.2, neither loaded nor on disk */
static bool no_default;   /* dlsym(RTLD_DEFAULT) finds nothing */
static bool made_up;      /* dlopen and dlsym return the functions below */
static int handle;

void *__real_dlopen(const char *file, int flags);
void *__real_dlsym(void *library, const char *name);
void *__wrap_dlopen(const char *file, int flags);
void *__wrap_dlsym(void *library, const char *name);

/* ---- NVML ------------------------------------------------------------------------------------ */

static const struct pair {
    const char *what, *a, *b;
    int unseen;        /* CUDA knows no bus ids of GPUs from this number on */
    bool atomics;      /* what CUDA says about the two GPUs; NVML says the opposite */
    const char *fails; /* the NVML or CUDA call that fails */
    const char *lacks;
    int links;
} pairs[] = {
#define A      "0000:01:00.0"
#define B      "0000:02:00.0"
#define PCIE   AR_LINKS_PCIE
#define NVLINK AR_LINKS_NVLINK
    {"one GPU", A, A, 0, false, NULL, "libnvidia-ml.so.1", NVLINK},
    {"CUDA says NVLink", A, B, 9, true, NULL, NULL, NVLINK},
    {"CUDA says PCIe", A, B, 9, false, NULL, NULL, PCIE},
    {"CUDA cannot say", A, B, 9, false, "cudaDeviceGetP2PAttribute", NULL, NVLINK},
    {"NVML says NVLink: the first is not ours", B, A, 2, false, NULL, NULL, NVLINK},
    {"NVML says NVLink: the second is not ours", A, B, 2, false, NULL, NULL, NVLINK},
    {"NVML says PCIe", A, B, 2, true, NULL, NULL, PCIE},
    {"no NVML", A, B, 2, false, NULL, "libnvidia-ml.so.1", PCIE},
    {"NVML does not start", A, B, 2, false, "nvmlInit_v2", NULL, PCIE},
    {"NVML does not know the first", A, B, 2, false, A, NULL, PCIE},
    {"NVML does not know the second", A, B, 2, false, B, NULL, PCIE},
    {"NVML cannot say", A, B, 2, false, "nvmlDeviceGetP2PStatus", NULL, PCIE},
    {"an NVML without init", A, B, 2, false, NULL, "nvmlInit_v2", PCIE},
    {"... without handles", A, B, 2, false, NULL, "nvmlDeviceGetHandleByPciBusId_v2", PCIE},
    {"... without status", A, B, 2, false, NULL, "nvmlDeviceGetP2PStatus", PCIE},
};
static const struct pair *pair;

static int goes(const char *call)
{
    return pair->fails != NULL && strcmp(pair->fails, call) == 0 ? 999 : 0;
}

static int nvml_init(void)
{
    return goes("nvmlInit_v2");
}

static int nvml_by_bus(const char *bus, const char **gpu)
{
    *gpu = bus;
    return goes(bus);
}

static int nvml_status(const char *a, const char *b, int what, int *verdict)
{
    ck_assert_int_eq(what, 2); /* NVML_P2P_CAPS_INDEX_NVLINK */
    ck_assert_str_eq(a, pair->a);
    ck_assert_str_eq(b, pair->b);
    *verdict = pair->atomics ? 4 /* not supported */ : 0; /* also set if the call fails */
    return goes("nvmlDeviceGetP2PStatus");
}

void *__wrap_dlopen(const char *file, int flags)
{
    loader_enter();
    if (no_nccl || (lacks != NULL && file != NULL && strcmp(file, lacks) == 0))
        return NULL;
    return made_up ? &handle : __real_dlopen(file, flags);
}

void *__wrap_dlsym(void *library, const char *name)
{
    static const struct {
        const char *name;
        void (*function)(void);
    } nvml[] = {{"nvmlInit_v2", (void (*)(void))nvml_init},
                {"nvmlDeviceGetHandleByPciBusId_v2", (void (*)(void))nvml_by_bus},
                {"nvmlDeviceGetP2PStatus", (void (*)(void))nvml_status}};

    loader_enter();
    if ((lacks != NULL && strcmp(name, lacks) == 0) || (no_default && library == RTLD_DEFAULT))
        return NULL;
    if (library != &handle)
        return __real_dlsym(library, name);
    for (size_t i = 0; i < sizeof nvml / sizeof *nvml; i++)
        if (strcmp(nvml[i].name, name) == 0)
            return *(void **)&nvml[i].function;
    return NULL;
}

START_TEST(test_links_are_what_cuda_says_else_nvml_else_pcie)
{
    int links;

    pair = &pairs[_i];
    made_up = true;
    lacks = pair->lacks;
    memset(&fake, 0, sizeof fake);
    fake.seen = pair->unseen;
    fake.no_atomics = !pair->atomics;
    fake.no_p2p_answer = goes("cudaDeviceGetP2PAttribute");
    cudaGetLastError();
    links = ar_links_between(pair->a, pair->b);
    ck_assert_msg(links == pair->links, "%s: %d", pair->what, links);
    /* CUDA does not see some of these GPUs, but no CUDA error may be left */
    ck_assert_int_eq(cudaGetLastError(), cudaSuccess);
}
END_TEST

/* Whenever a communicator gets a handle, the library asks which machine this is. A program may have
 * thousands of communicators, so asking must leave no file open. */
START_TEST(test_asking_for_the_box_leaves_no_file_open)
{
    int before = dup(0);

    unsetenv("NCCL_HOSTID");
    close(before);
    ck_assert_uint_ne(ar_box_card(false, 1, true).host, 0);
    ck_assert_int_eq(dup(0), before);
    close(before);
}
END_TEST

/* ---- NCCL ------------------------------------------------------------------------------------ */

#define OLD "has no windows; 2.28.3 or later is needed"

static const struct {
    const char *lacks;
    int version;
    const char *why; /* why this NCCL is refused; NULL: it is good enough */
} found[] = {
    {NULL, 22803, NULL},
    {NULL, 23206, NULL},
    {NULL, 22802, "NCCL 2.28.2 " OLD},
    {NULL, 22707, "NCCL 2.27.7 " OLD},
    {"ncclGetVersion", 22809, "libnccl.so.2 is neither loaded nor in the library path"},
    {"ncclGetVersion", 0, "NCCL 0.0.0 " OLD}, /* this library has ncclGetVersion, but is no NCCL
                                                 that we know */
    {"ncclCommCount", 22809, "this NCCL has no ncclCommCount"},
    {"ncclCommWindowRegister", 22809, "this NCCL has no ncclCommWindowRegister"},
    {"ncclGetErrorString", 22809, "this NCCL has no ncclGetErrorString"},
    /* these functions need not exist, because NCCL has them only since 2.29 */
    {"ncclGetLsaDevicePointer", 22809, NULL},
    {"ncclGetLsaMultimemDevicePointer", 22809, NULL},
};

START_TEST(test_an_nccl_is_good_enough_or_says_why_not)
{
    const struct ar_nccl *nccl;
    char why[160] = "untouched";

    fake_nccl_reset(2);
    fake_nccl.version = found[_i].version;
    lacks = found[_i].lacks;
    no_nccl = found[_i].version != 0;
    made_up = !no_nccl;                       /* the library opens, but has no function of NCCL */
    for (int again = 0; again < 2; again++) { /* the second time no library is searched, and the
                                                 error is the same */
        nccl = ar_nccl_get(why, sizeof why);
        ck_assert_msg((nccl != NULL) == (found[_i].why == NULL), "%s", why);
        ck_assert_str_eq(why, found[_i].why != NULL ? found[_i].why : "untouched");
    }
    if (nccl == NULL)
        return;
    ck_assert_int_eq(nccl->version, found[_i].version);
    ck_assert_ptr_eq(*(void **)&nccl->ncclGetLsaDevicePointer,
                     __wrap_dlsym(NULL, "ncclGetLsaDevicePointer"));
    ck_assert_ptr_eq(*(void **)&nccl->ncclAllReduce, __wrap_dlsym(NULL, "ncclAllReduce"));
}
END_TEST

/* Once a program has chosen an NCCL with symtuner_ar_use_nccl, the library takes functions from
 * that NCCL only. With no_default the search through all loaded libraries finds nothing. */
START_TEST(test_a_chosen_nccl_is_used)
{
    const struct ar_nccl *nccl;
    void *chosen = dlopen(NULL, RTLD_NOW);
    char why[160] = "";

    fake_nccl_reset(2);
    fake_nccl.version = 22809;
    ck_assert_int_eq(symtuner_ar_use_nccl(NULL), ncclInvalidArgument);
    ck_assert_int_eq(symtuner_ar_use_nccl(chosen), ncclSuccess);
    ck_assert_int_eq(symtuner_ar_use_nccl(chosen), ncclSuccess);
    ck_assert_int_eq(symtuner_ar_use_nccl(&handle), ncclInvalidUsage);
    ck_assert_str_eq(symtuner_ar_error(NULL), "this process already uses another NCCL");
    no_default = true;
    nccl = ar_nccl_get(why, sizeof why);
    ck_assert_msg(nccl != NULL, "%s", why);
    ck_assert_ptr_eq(*(void **)&nccl->ncclAllReduce, __wrap_dlsym(chosen, "ncclAllReduce"));
    ck_assert_int_eq(symtuner_ar_use_nccl(chosen), ncclSuccess);
}
END_TEST

START_TEST(test_it_is_too_late_to_choose_another)
{
    char why[160] = "";

    fake_nccl_reset(2);
    fake_nccl.version = 22809;
    ck_assert_ptr_nonnull(ar_nccl_get(why, sizeof why));
    ck_assert_int_eq(symtuner_ar_use_nccl(&handle), ncclInvalidUsage);
    ck_assert_int_eq(symtuner_ar_use_nccl(dlopen(NULL, RTLD_NOW)), ncclSuccess);
    ck_assert_int_eq(symtuner_ar_use_nccl(&handle), ncclInvalidUsage);
}
END_TEST

/* While a thread looks up NCCL's functions, a library's constructor may make a communicator or
 * choose an NCCL (loader.h). Neither waits for the other. If the constructor chooses an NCCL, the
 * thread takes that one, too. */
static void *get(void *unused)
{
    const struct ar_nccl *nccl;
    char why[160] = "";

    nccl = ar_nccl_get(why, sizeof why);
    must(nccl != NULL && nccl->ncclAllReduce != NULL);
    return unused;
}

static void *choose(void *unused)
{
    must(symtuner_ar_use_nccl(&handle) == ncclSuccess);
    must(symtuner_ar_use_nccl(dlopen(NULL, RTLD_NOW)) == ncclInvalidUsage);
    return unused;
}

START_TEST(test_a_constructor_and_a_look_up_do_not_wait_for_each_other)
{
    fake_nccl_reset(2);
    fake_nccl.version = 22809;
    loader_meet(get, get);
    ck_assert_int_eq(symtuner_ar_use_nccl(&handle), ncclInvalidUsage);
}
END_TEST

static void *ask_for_multicast(void *unused)
{
    must(!ar_multicast_here());
    return unused;
}

START_TEST(test_a_constructor_and_a_search_for_gpus_do_not_wait_for_each_other)
{
    unsetenv("SYMTUNER_MACHINE");
    lacks = "libnvidia-ml.so.1";
    loader_meet(ask_for_multicast, ask_for_multicast);
}
END_TEST

static void *get_chosen(void *unused)
{
    char why[160] = "";

    must(ar_nccl_get(why, sizeof why) == NULL);
    must(strcmp(why, "NCCL 0.0.0 " OLD) == 0); /* no function of NCCL is in &handle */
    return unused;
}

START_TEST(test_an_nccl_that_a_constructor_chooses_is_used)
{
    fake_nccl_reset(2);
    fake_nccl.version = 22809;
    loader_meet(get_chosen, choose);
    get_chosen(NULL);
    ck_assert_int_eq(symtuner_ar_use_nccl(&handle), ncclSuccess);
}
END_TEST

/* ---- windows --------------------------------------------------------------------------------- */

/* This is how NCCL lays out a window in device memory. The offsets were found by experiment. */
struct record {
    void *host;
    char *flat;
    int lsa_rank, world_rank;
    uint32_t stride_4g, mc_4k;
};

static char memory[4][16];
static int no_peer = -1; /* for rank no_peer NCCL returns an error; for rank no_peer - 10 it gives
                            the address NULL */

static ncclResult_t peer_pointer(ncclWindow_t window, size_t offset, int rank, void **out)
{
    ck_assert_ptr_eq(window, memory);
    ck_assert_uint_eq(offset, 0);
    *out = no_peer == 10 + rank ? NULL : memory[rank];
    return no_peer == rank ? ncclInternalError : ncclSuccess;
}

START_TEST(test_a_window_is_asked_of_nccl_where_nccl_can_say)
{
    const struct ar_nccl nccl = {.version = 22902, .ncclGetLsaDevicePointer = peer_pointer};
    ncclWindow_t window = (ncclWindow_t)(void *)memory;
    char *peers[4], why[160] = "", want[80];

    ck_assert_int_eq(ar_nccl_window_peers(&nccl, window, 4, 1, peers, why, sizeof why), 0);
    for (int r = 0; r < 4; r++)
        ck_assert_ptr_eq(peers[r], memory[r]);
    for (no_peer = 0; no_peer < 14; no_peer += no_peer == 3 ? 7 : 1) { /* 10 to 13: the address
                                                                          NULL */
        ck_assert_int_eq(ar_nccl_window_peers(&nccl, window, 4, 1, peers, why, sizeof why),
                         ncclInvalidUsage);
        snprintf(want, sizeof want, "NCCL maps no memory of rank %d into rank 1", no_peer % 10);
        ck_assert_str_eq(why, want);
    }
    ck_assert_int_eq(ar_nccl_window_peers(&nccl, NULL, 4, 1, peers, why, sizeof why),
                     ncclInvalidUsage);
    ck_assert_ptr_nonnull(strstr(why, "NCCL gave no symmetric window"));
}
END_TEST

START_TEST(test_before_that_its_record_is_read)
{
    const struct ar_nccl nccl = {.version = 22809};
    struct record record = {.flat = memory[0], .lsa_rank = 1, .stride_4g = 3};
    ncclWindow_t window = (ncclWindow_t)(void *)&record;
    char *peers[3], why[160] = "";

    memset(&fake, 0, sizeof fake);
    fake.global_capture = 1; /* programs may register memory while a thread captures */
    ck_assert_int_eq(ar_nccl_window_peers(&nccl, window, 3, 1, peers, why, sizeof why), 0);
    fake.global_capture = 0;
    ck_assert_int_eq(fake.syncs, 1); /* the record must be read only after it has arrived */
    for (uint64_t r = 0; r < 3; r++) /* the memory of the next rank begins 12 GiB further */
        ck_assert_uint_eq((uintptr_t)peers[r], (uintptr_t)memory[0] + r * (12ull << 30));
    for (int wrong = 0; wrong < 3; wrong++) {
        record.flat = wrong == 0 ? NULL : memory[0];
        record.lsa_rank = wrong == 1 ? 2 : 1;
        fake.fail_at = wrong == 2;
        fake.calls = 0;
        ck_assert_int_eq(ar_nccl_window_peers(&nccl, window, 3, 1, peers, why, sizeof why),
                         ncclInternalError);
        ck_assert_str_eq(why, "the window record of NCCL 22809 is not as known from 2.28");
        ck_assert_int_eq(cudaGetLastError(), cudaSuccess);
    }
}
END_TEST

/* ---- faults ---------------------------------------------------------------------------------- */

static const struct {
    int release, dtype, op;
    size_t send, recv; /* distances of the buffers from a multiple of 8 bytes */
    const char *says;  /* NULL: there is no warning */
} faulty[] = {
#define ODD "wrong results for 8-bit and 16-bit types"
#define AVG "AllReduce with ncclAvg on two symmetric windows fails"
    {22803, ncclHalf, ncclSum, 0, 2, ODD},       {22999, ncclHalf, ncclSum, 0, 2, ODD},
    {23000, ncclHalf, ncclSum, 0, 2, NULL},      {22907, ncclHalf, ncclSum, 2, 0, ODD},
    {22907, ncclHalf, ncclSum, 0, 0, NULL},      {22907, ncclHalf, ncclSum, 4, 4, NULL},
    {22907, ncclHalf, ncclMax, 2, 2, NULL},      {22907, ncclHalf, ncclAvg, 2, 2, NULL},
    {22907, ncclBfloat16, ncclSum, 6, 0, ODD},   {22907, ncclFloat8e4m3, ncclSum, 1, 0, ODD},
    {22907, ncclFloat8e5m2, ncclSum, 0, 5, ODD}, {22907, ncclInt8, ncclSum, 1, 1, NULL},
    {22907, ncclDouble, ncclSum, 0, 0, NULL},    {23002, ncclFloat, ncclAvg, 0, 0, NULL},
    {23003, ncclFloat, ncclAvg, 0, 0, AVG},      {23199, ncclFloat, ncclAvg, 0, 0, AVG},
    {23203, ncclFloat, ncclAvg, 0, 0, AVG},      {23102, ncclFloat, ncclSum, 0, 0, NULL},
    {23102, ncclHalf, ncclAvg, 0, 0, AVG},       {23102, ncclBfloat16, ncclAvg, 0, 0, AVG},
    {23102, ncclInt32, ncclAvg, 0, 0, NULL},     {23102, ncclUint64, ncclAvg, 0, 0, NULL},
};

START_TEST(test_a_fault_of_nccl_is_told_where_it_is_met)
{
    static char p[16] __attribute__((aligned(8)));
    const char *heard;

    capture_stderr();
    ar_nccl_warn(faulty[_i].release, faulty[_i].dtype, faulty[_i].op, p + faulty[_i].send,
                 p + faulty[_i].recv);
    heard = captured_stderr();
    ck_assert_msg(faulty[_i].says != NULL ? strstr(heard, faulty[_i].says) != NULL : *heard == 0,
                  "row %d: \"%s\"", _i, heard);
}
END_TEST

Suite *st_suite_nccl(void)
{
    Suite *suite = suite_create("ar_nccl");
    TCase *links = tcase_create("links"), *nccl = tcase_create("NCCL");

    tcase_add_loop_test(links, test_links_are_what_cuda_says_else_nvml_else_pcie, 0,
                        (int)(sizeof pairs / sizeof *pairs));
    tcase_add_test(links, test_asking_for_the_box_leaves_no_file_open);
    tcase_add_loop_test(nccl, test_an_nccl_is_good_enough_or_says_why_not, 0,
                        (int)(sizeof found / sizeof *found));
    tcase_add_test(nccl, test_a_chosen_nccl_is_used);
    tcase_add_test(nccl, test_it_is_too_late_to_choose_another);
    tcase_add_test(nccl, test_a_constructor_and_a_look_up_do_not_wait_for_each_other);
    tcase_add_test(nccl, test_an_nccl_that_a_constructor_chooses_is_used);
    tcase_add_test(nccl, test_a_constructor_and_a_search_for_gpus_do_not_wait_for_each_other);
    tcase_add_test(nccl, test_a_window_is_asked_of_nccl_where_nccl_can_say);
    tcase_add_test(nccl, test_before_that_its_record_is_read);
    tcase_add_loop_test(nccl, test_a_fault_of_nccl_is_told_where_it_is_met, 0,
                        (int)(sizeof faulty / sizeof *faulty));
    suite_add_tcase(suite, links);
    suite_add_tcase(suite, nccl);
    return suite;
}
