/* SPDX-License-Identifier: Apache-2.0 */
/*
 * symbols.c - dlsym, for programs that open NCCL with dlopen.
 *
 * XLA, cupy, nccl4py and vLLM's pynccl ask dlsym for NCCL's functions. If they ask for a function
 * that we intercept (known.h), and dlsym finds it in a copy of NCCL, they get our function for that
 * copy. Our own libraries get NCCL's function: our kernels could run none of their NCCL calls, and
 * libsymtuner_ffi.so makes the handles for its calls itself.
 *
 * The C library's dlsym uses its return address to find out which library asks for RTLD_NEXT or
 * RTLD_DEFAULT. So for other names our dlsym jumps to the C library's dlsym, which sees the
 * program's return address.
 */
#include <dlfcn.h>
#include <stdatomic.h>
#include <string.h>

#include "dropin/group.h"
#include "dropin/settings.h"
#include "dropin/entry/wrap.h"

const char *const st_known_name[ST_KNOWN] = {
#define X(name) "nccl" #name,
    ST_PLAIN_MAP(X)
#undef X
#define X(name, params, args) "nccl" #name,
        ST_KNOWN_MAP(X)
#undef X
#define X(name, coll, collective, factor, params, args) "nccl" #name,
            ST_FORWARDED_MAP(X)
#undef X
};

int st_known_find(const char *name)
{
    if (strncmp(name, "nccl", 4) != 0)
        return -1;
    for (int i = 0; i < ST_KNOWN; i++)
        if (strcmp(name + 4, st_known_name[i] + 4) == 0)
            return i;
    return -1;
}

/* Is ${caller} in one of our own libraries? */
static bool is_ours(const void *caller)
{
    static const char *const name[] = {"libsymtuner_ar.so", "libsymtuner_ffi.so"};
    const char *slash;
    Dl_info info;

    if (!dladdr(caller, &info) || !(slash = strrchr(info.dli_fname, '/')))
        return false;
    for (size_t i = 0; i < sizeof name / sizeof *name; i++)
        if (strcmp(slash + 1, name[i]) == 0)
            return true;
    return false;
}

st_dlsym *st_real_dlsym(void)
{
    static const char *const version[] = {"GLIBC_2.34", "GLIBC_2.2.5", "GLIBC_2.17"};
    static _Atomic(void *) found;
    void *symbol = atomic_load_explicit(&found, memory_order_acquire);
    st_dlsym *function;

    for (size_t i = 0; !symbol && i < sizeof version / sizeof *version; i++)
        symbol = dlvsym(RTLD_NEXT, "dlsym", version[i]);
    atomic_store_explicit(&found, symbol, memory_order_release);
    *(void **)&function = symbol;
    return function;
}

/* What st_symbol returns. Both members come back in registers, where the assembly code below finds
 * them. */
struct st_answer {
    void *value;
    void *jump; /* not NULL: go to this function with the same arguments */
};

__attribute__((used)) struct st_answer st_symbol(void *library, const char *name,
                                                 const void *caller);

struct st_answer st_symbol(void *library, const char *name, const void *caller)
{
    st_dlsym *find = st_real_dlsym();
    struct st_answer answer = {NULL, NULL};
    struct st_real *real;
    int known;

    if (!find) /* without the C library's dlsym we find no symbol */
        return answer;
    known = st_off || st_inside || !name ? -1 : st_known_find(name);
    if (known < 0 || library == RTLD_NEXT) {
        *(st_dlsym **)&answer.jump = find;
        return answer;
    }
    answer.value = find(library, name);
    if (!answer.value)
        return answer;
    if (st_wrapper_is_export(answer.value, known)) {
        /* dlsym has found our exported function. Find what it would find without the drop-in. */
        real = st_real_of((struct st_from){NULL, caller});
        if (!real || !real->function[known])
            answer.value = find(RTLD_NEXT, name); /* if NULL, dlerror tells why */
        else if (is_ours(caller))
            answer.value = real->function[known];
        return answer;
    }
    real = is_ours(caller) ? NULL : st_real_at(answer.value);
    if (real)
        answer.value = st_wrapper(real, known);
    dlerror(); /* clear errors of our own look-ups: the program may ask whether its own failed */
    return answer;
}

#if defined(__x86_64__)
__asm__(".text\n"
        ".globl dlsym\n"
        ".type dlsym, @function\n"
        "dlsym:\n"
        "    .cfi_startproc\n"
        "    endbr64\n"
        "    push %rdi\n"
        "    .cfi_adjust_cfa_offset 8\n"
        "    push %rsi\n"
        "    .cfi_adjust_cfa_offset 8\n"
        "    sub $8, %rsp\n" /* the ABI aligns the stack to 16 bytes at calls */
        "    .cfi_adjust_cfa_offset 8\n"
        "    mov 24(%rsp), %rdx\n" /* our return address */
        "    call st_symbol\n"
        "    mov %rdx, %r11\n"
        "    add $8, %rsp\n"
        "    .cfi_adjust_cfa_offset -8\n"
        "    pop %rsi\n"
        "    .cfi_adjust_cfa_offset -8\n"
        "    pop %rdi\n"
        "    .cfi_adjust_cfa_offset -8\n"
        "    test %r11, %r11\n"
        "    jz 1f\n"
        "    jmp *%r11\n"
        "1:  ret\n"
        "    .cfi_endproc\n"
        ".size dlsym, . - dlsym\n");
#elif defined(__aarch64__)
__asm__(".text\n"
        ".globl dlsym\n"
        ".type dlsym, %function\n"
        "dlsym:\n"
        "    .cfi_startproc\n"
        "    hint #34\n" /* bti c */
        "    stp x29, x30, [sp, #-32]!\n"
        "    .cfi_def_cfa_offset 32\n"
        "    .cfi_offset 29, -32\n"
        "    .cfi_offset 30, -24\n"
        "    stp x0, x1, [sp, #16]\n"
        "    mov x29, sp\n"
        "    mov x2, x30\n" /* our return address */
        "    bl st_symbol\n"
        "    mov x16, x1\n"
        "    cbz x16, 1f\n"
        "    ldp x0, x1, [sp, #16]\n"
        "    ldp x29, x30, [sp], #32\n"
        "    br x16\n"
        "1:  ldp x29, x30, [sp], #32\n"
        "    ret\n"
        "    .cfi_endproc\n"
        ".size dlsym, . - dlsym\n");
#endif
