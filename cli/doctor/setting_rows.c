/* SPDX-License-Identifier: Apache-2.0 */
/*
 * setting_rows.c - findings about settings: what each variable does to symmetric kernels and to
 * rules.
 */
#include <ctype.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "cli/doctor/doctor.h"
#include "nccl/model/setting_list.h"
#include "nccl/model/settings.h"
#include "nccl/model/symmetric_cost.h"
#include "cli/text.h"
#include "nccl/release.h"
#include "nccl/names.h"
#include "nccl/variables.h"

/* ---- checks that need more than a comparison ------------------------------------------------- */

/* NCCL's symmetric kernels that use the network. nccl/model, which predicts what NCCL does, does
 * not know them. */
static const char *const network_kernel[] = {
    "AllReduce_RSxNet_ARxMC_AGxNet", "AllGather_GinHier_MCRing", "AllGather_RailRing_LsaSTMC",
    "ReduceScatter_RailA2A_LsaLD", "ReduceScatter_RailA2A_LsaLDMC"};
enum { NETWORK_KERNELS = sizeof network_kernel / sizeof *network_kernel };

static bool is_kernel(const char *word, size_t length, bool any_case)
{
    for (int i = 0; i < ST_KERNELS + NETWORK_KERNELS; i++) {
        const char *name = i < ST_KERNELS ? st_kernel_name((enum st_kernel)i)
                                          : network_kernel[i - ST_KERNELS];

        if (strlen(name) == length && (any_case ? strncasecmp : strncmp)(name, word, length) == 0)
            return true;
    }
    return false;
}

/* Find the first word of ${value}, the value of NCCL_SYM_KERNEL, that names no kernel. Returns the
 * word and sets ${length}, or returns NULL if there is no such word. */
static const char *wrong_kernel(const struct st_doctor *doctor, const char *value, size_t *length)
{
    bool list = st_era_of(doctor->nccl)->sym_kernel == ST_SYM_KERNEL_LIST;

    if (value[0] == '\0' || value[0] == '^')
        return NULL;
    if (!list) {
        *length = strlen(value);
        return is_kernel(value, *length, false) ? NULL : value;
    }
    while (*value) {
        const char *colon = strpbrk(value, ":,;");

        if (colon && *colon == ':')
            value = colon + 1;
        *length = strcspn(value, ",;");
        if (!is_kernel(value, *length, true))
            return value;
        value += *length;
        value += *value != '\0';
    }
    return NULL;
}

static bool kernel_typo(const struct st_doctor *doctor, char *evidence)
{
    const struct st_setting *setting = st_doctor_get(doctor, "NCCL_SYM_KERNEL");
    size_t length;
    const char *word = setting ? wrong_kernel(doctor, setting->value, &length) : NULL;

    return word && st_found(evidence, "NCCL_SYM_KERNEL=%s (%s): no kernel is called \"%.*s\"",
                            setting->value, setting->origin, (int)length, word);
}

static bool kernel_alone(const struct st_doctor *doctor, char *evidence)
{
    const struct st_setting *setting = st_doctor_get(doctor, "NCCL_SYM_KERNEL");
    size_t length;

    return setting && setting->value[0] != '\0' && setting->value[0] != '^' &&
           !wrong_kernel(doctor, setting->value, &length) && st_found_setting(evidence, setting);
}

/* Is there a variable whose name NCCL does not know, but which is similar to a known name? */
static bool variable_typo(const struct st_doctor *doctor, char *evidence)
{
    for (int i = 0; i < doctor->settings; i++) {
        const struct st_setting *setting = &doctor->setting[i];
        const char *near = NULL, *known;

        if (strncmp(setting->name, "NCCL_", 5) != 0)
            continue;
        for (int k = 0; (known = st_setting_known(k)); k++) {
            size_t length = strlen(known);
            int edits = st_word_distance(setting->name, strlen(setting->name), known, length);

            if (strcmp(setting->name, known) == 0) {
                near = NULL;
                break;
            }
            if (edits <= (length > 12 ? 2 : 1))
                near = known;
        }
        if (near)
            return st_found(evidence, "%s=%s (%s): did you mean %s?", setting->name, setting->value,
                            setting->origin, near);
    }
    return false;
}

/* Does NCCL read another number from a variable's value than the user meant? Leaves out
 * NCCL_SYM_CTAS, because the finding sym-ctas-range reports it. */
static bool number_expected(const struct st_doctor *doctor, char *evidence)
{
    size_t at = 0;

    for (int i = 0; i < doctor->settings; i++) {
        const struct st_setting *setting = &doctor->setting[i];
        long long number;
        bool whole = true;

        if (st_setting_number(setting, &number, &whole) && !whole &&
            strcmp(setting->name, "NCCL_SYM_CTAS") != 0)
            at = st_text_add(evidence, ST_EVIDENCE, at, "%s%s=%.100s (%s): NCCL reads %lld",
                             at ? "; " : "", setting->name, setting->value, setting->origin,
                             number);
        /* Up to 2.28 NCCL reads a word in NCCL_CTA_POLICY as 0. */
        if (strcmp(setting->name, "NCCL_CTA_POLICY") == 0 && doctor->nccl < 22900 &&
            isalpha((unsigned char)setting->value[0]))
            at = st_text_add(evidence, ST_EVIDENCE, at, "%s%s=%.100s (%s): NCCL reads 0",
                             at ? "; " : "", setting->name, setting->value, setting->origin);
    }
    return at > 0;
}

static bool symtuner_variable(const struct st_doctor *doctor, char *evidence)
{
    size_t at = 0;

    for (int i = 0; i < doctor->settings; i++) {
        const struct st_setting *setting = &doctor->setting[i];
        struct symtuner_option row;
        bool exists = st_variable_find(setting->name, strlen(setting->name));

        if (strncmp(setting->name, "SYMTUNER_", 9) != 0)
            continue;
        for (int o = 0; symtuner_option_get(o, &row) && !exists; o++)
            exists = strcmp(row.name, setting->name) == 0;
        if (!exists)
            at = st_text_add(evidence, ST_EVIDENCE, at, "%s%s=%s (%s): there is no such variable",
                             at ? "; " : "", setting->name, setting->value, setting->origin);
    }
    return at > 0;
}

static bool symtuner_value(const struct st_doctor *doctor, char *evidence)
{
    const char *described = getenv("SYMTUNER_MACHINE");
    struct symtuner_machine machine;
    const struct st_variable *variable;
    struct symtuner_option row;
    char legal[ST_VARIABLE_LEGAL];
    size_t at = 0;
    int number;

    for (int o = 0; symtuner_option_get(o, &row); o++) {
        const struct st_setting *setting = st_doctor_get(doctor, row.name);

        if (setting && strcmp(row.values, "text") != 0 &&
            !st_word_listed(row.values, setting->value, strncmp))
            at = st_text_add(evidence, ST_EVIDENCE, at, "%s%s=%s (%s): legal are %s; %s\"%s\"",
                             at ? "; " : "", row.name, setting->value, setting->origin, row.values,
                             strncmp(row.help, "JAX package", 11) == 0 ? "JAX stops here, default "
                                                                       : "using ",
                             row.fallback);
    }
    for (int i = 0; (variable = st_variable_get(i)); i++) {
        const struct st_setting *setting = st_doctor_get(doctor, variable->name);

        if (!setting || st_variable_value(variable, setting->value, &number))
            continue;
        st_variable_legal(variable, legal);
        at = st_text_add(evidence, ST_EVIDENCE, at, "%s%s=%.100s (%s): write %s", at ? "; " : "",
                         variable->name, setting->value, setting->origin, legal);
    }
    if (described && *described && !symtuner_machine_find(&machine))
        at = st_text_add(evidence, ST_EVIDENCE, at, "%sSYMTUNER_MACHINE=%.200s (environment): the "
                         "box counts as unknown; write for example \"gpu=NVIDIA H200; "
                         "links=nvlink\"",
                         at ? "; " : "", described);
    return at > 0;
}

/* Return the policy that NCCL reads from NCCL_CTA_POLICY; 0 is the default. From 2.29 on each bit
 * is a policy, and several can be set. */
static int cta_policy(const struct st_doctor *doctor)
{
    const struct st_setting *setting = st_doctor_get(doctor, "NCCL_CTA_POLICY");
    char text[100], error[SYMTUNER_ERROR_MAX];
    struct symtuner_call call;

    if (!setting || (size_t)snprintf(text, sizeof text, "%s=%s", setting->name, setting->value) >=
                        sizeof text)
        return 0;
    symtuner_call_init(&call, doctor->nccl);
    st_setting_apply(&call, text, error, sizeof error);
    return call.cta_policy;
}

static bool policy_zero(const struct st_doctor *doctor, char *evidence)
{
    int policy = cta_policy(doctor);

    return (doctor->nccl < 22900 ? policy == 2 : policy & 2) &&
           st_found_setting(evidence, st_doctor_get(doctor, "NCCL_CTA_POLICY"));
}

static bool policy_efficiency(const struct st_doctor *doctor, char *evidence)
{
    int policy = cta_policy(doctor);

    return (doctor->nccl < 22900 ? policy == 1 : policy & 1) &&
           st_found_setting(evidence, st_doctor_get(doctor, "NCCL_CTA_POLICY"));
}

/* Return how NCCL reads NCCL_P2P_LEVEL: 1 if the level forbids peer access between some pairs of
 * GPUs, 0 if it forbids none, -1 if NCCL ignores the value or if there is no value. Case matters.
 * The value may also be a number, an earlier form (see NCCL's paths.cc, 2.27.3 to 2.30.7). */
static int read_p2p_level(const struct st_setting *setting)
{
    enum { OLD_SYS = 4 };

    if (!setting || !setting->value[0])
        return -1;
    if (isdigit((unsigned char)setting->value[0]))
        return strtol(setting->value, NULL, 0) < OLD_SYS;
    if (st_word_listed("LOC|NVL|NVB|C2C|PIX|PXB|P2C|PXN|PHB", setting->value, strncmp))
        return 1;
    return strcmp(setting->value, "SYS") == 0 ? 0 : -1;
}

static bool p2p_level(const struct st_doctor *doctor, char *evidence)
{
    const struct st_setting *setting = st_doctor_get(doctor, "NCCL_P2P_LEVEL");

    return read_p2p_level(setting) > 0 && st_found_setting(evidence, setting);
}

static bool p2p_level_unknown(const struct st_doctor *doctor, char *evidence)
{
    const struct st_setting *setting = st_doctor_get(doctor, "NCCL_P2P_LEVEL");

    return setting && setting->value[0] && read_p2p_level(setting) < 0 &&
           st_found_setting(evidence, setting);
}

/* Does NCCL_PROTO allow LL128? If so, NCCL uses LL128 even on machines on which NCCL itself would
 * not allow it. */
static bool proto_ll128(const struct st_doctor *doctor, char *evidence)
{
    const struct st_setting *setting = st_doctor_get(doctor, "NCCL_PROTO");

    for (int coll = 0; setting && coll < SYMTUNER_COLLS; coll++)
        if (st_list_says(setting->value, symtuner_coll_name(coll), "LL128") == ST_SAYS_YES)
            return st_found_setting(evidence, setting);
    return false;
}

/* Is NCCL_PROTO set to something other than ^LL128, which the finding proto-ll128 advises? Leaves
 * out values that allow LL128, because proto-ll128 reports them. */
static bool proto_forced(const struct st_doctor *doctor, char *evidence)
{
    const struct st_setting *setting = st_doctor_get(doctor, "NCCL_PROTO");

    return setting && !st_word_listed("|^LL128", setting->value, strncasecmp) &&
           !proto_ll128(doctor, evidence) && st_found_setting(evidence, setting);
}

/* Is NCCL_SYM_CTAS set to something that is not a number from 0 to 64? */
static bool sym_ctas_range(const struct st_doctor *doctor, char *evidence)
{
    const struct st_setting *setting = st_doctor_get(doctor, "NCCL_SYM_CTAS");
    char *end;
    long n;

    if (!setting)
        return false;
    n = strtol(setting->value, &end, 0);
    return (*end || end == setting->value || n < 0 || n > 64) &&
           st_found_setting(evidence, setting);
}

static const char xla_symmetric[] =
    "--xla_gpu_experimental_enable_nccl_symmetric_buffers=true";

static bool xla_starved(const struct st_doctor *doctor, char *evidence)
{
    const struct st_setting *flags = st_doctor_get(doctor, "XLA_FLAGS");

    return flags && strstr(flags->value, xla_symmetric) &&
           !st_doctor_get(doctor, "NCCL_SYM_CTAS") && !doctor->tuner.symtuner &&
           !doctor->env.symtuner &&
           st_found(evidence, "XLA_FLAGS turns symmetric buffers on, and neither symtuner nor "
                              "NCCL_SYM_CTAS raises their CTA count");
}

static bool xla_half(const struct st_doctor *doctor, char *evidence)
{
    const struct st_setting *flags = st_doctor_get(doctor, "XLA_FLAGS");

    return flags && strstr(flags->value, xla_symmetric) &&
           !strstr(flags->value, "--xla_gpu_enable_nccl_user_buffers=true") &&
           st_found(evidence, "XLA_FLAGS has %s alone", xla_symmetric);
}

/* ---- the table ------------------------------------------------------------------------------- */

#define SETTING(id_, severity_, first_, last_, variable_, when_, operand_, what_, cure_)           \
    {.id = id_, .severity = severity_, .first = first_, .last = last_, .variable = variable_,      \
     .when = when_, .operand = operand_, .what = what_, .cure = cure_}

const struct st_finding st_findings_settings[] = {
    ST_ROW_OF("sym-kernel-typo", ST_ERROR, 0, 23099, kernel_typo,
        "a word that is no kernel switches all symmetric kernels off, without a message",
        "unset NCCL_SYM_KERNEL"),
    ST_ROW_OF("sym-kernel-fatal", ST_ERROR, 23100, 0, kernel_typo,
        "from 2.31 on no communicator can be created if NCCL_SYM_KERNEL has a wrong word",
        "unset NCCL_SYM_KERNEL"),
    ST_ROW_OF("sym-kernel-alone", ST_WARNING, 0, 23099, kernel_alone,
        "only the collective of this kernel gets symmetric kernels; all other collectives get none",
        "unset NCCL_SYM_KERNEL"),
    ST_ROW_OF("sym-kernel-exclusive", ST_ERROR, 23100, 0, kernel_alone,
        "from 2.31 on collectives without a kernel in NCCL_SYM_KERNEL fail with ncclInvalidUsage, "
        "and so do calls that need a general kernel, unless NCCL_ALGO lists the kernel's algorithm",
        "unset NCCL_SYM_KERNEL"),
    SETTING("algo-excludes-symmetric", ST_ERROR, 23100, 0, "NCCL_ALGO", ST_WHEN_SET, NULL,
        "from 2.31 on a collective that NCCL_ALGO names gets no symmetric kernel, whatever "
        "algorithm is set",
        "unset NCCL_ALGO; choose general kernels by a rule instead"),
    SETTING("algo-forced", ST_WARNING, 0, 23099, "NCCL_ALGO", ST_WHEN_SET, NULL,
        "NCCL uses this setting for all sizes; rules can only choose among the algorithms that it "
        "leaves",
        "unset NCCL_ALGO; write a rule with prefer = general:ALGORITHM/PROTOCOL"),
    ST_ROW("proto-ll128", ST_ERROR, proto_ll128,
        "if NCCL_PROTO names LL128, or only excludes other protocols, NCCL uses LL128 even on "
        "machines where its own safety check forbids it; data can be wrong",
        "unset NCCL_PROTO, or exclude LL128 with ^LL128"),
    ST_ROW("proto-forced", ST_WARNING, proto_forced,
        "NCCL uses this setting for all sizes; rules can only choose among the protocols that it "
        "leaves, and without LL a call with one registered buffer loses its symmetric kernel "
        "(2.29.2 and later)",
        "unset NCCL_PROTO"),
    SETTING("win-disabled", ST_ERROR, 0, 0, "NCCL_WIN_ENABLE", ST_WHEN_IS, "0",
        "NCCL registers no symmetric windows, so it runs no symmetric kernel",
        "unset NCCL_WIN_ENABLE"),
    SETTING("cumem-disabled", ST_ERROR, 0, 0, "NCCL_CUMEM_ENABLE", ST_WHEN_IS, "0",
            "without cuMem there are no symmetric windows and no symmetric kernels; registration "
            "still returns success, with a NULL window",
            "unset NCCL_CUMEM_ENABLE"),
    SETTING("p2p-disabled", ST_ERROR, 0, 0, "NCCL_P2P_DISABLE", ST_WHEN_IS, "1",
        "GPUs have no peer access: data goes through host memory, and NCCL acts as if there were "
        "no NVLink",
        "unset NCCL_P2P_DISABLE"),
    ST_ROW("p2p-level", ST_WARNING, p2p_level,
        "pairs of GPUs that are further apart than this level lose peer access, even if the "
        "machine has it",
        "unset NCCL_P2P_LEVEL, or set it to SYS"),
    ST_ROW("p2p-level-unknown", ST_WARNING, p2p_level_unknown,
        "NCCL knows no such level, ignores it, and does not say so",
        "write LOC, NVL, PIX, PXB, PHB or SYS, in capital letters"),
    SETTING("p2p-memcpy", ST_WARNING, 22807, 0, "NCCL_P2P_USE_CUDA_MEMCPY", ST_WHEN_IS, "1",
        "with this setting NCCL also stops the local registration of windows",
        "unset NCCL_P2P_USE_CUDA_MEMCPY"),
    SETTING("local-register-off", ST_WARNING, 0, 0, "NCCL_LOCAL_REGISTER", ST_WHEN_IS, "0",
        "with this setting NCCL 2.27 registers no window; in later releases the buffers do not "
        "count as registered for rules",
        "unset NCCL_LOCAL_REGISTER"),
    SETTING("graph-register-off", ST_NOTE, 0, 0, "NCCL_GRAPH_REGISTER", ST_WHEN_IS, "0",
            "captured calls do not count as registered for rules", "unset NCCL_GRAPH_REGISTER"),
    ST_ROW_OF("copy-engine-policy", ST_WARNING, 22800, 0, policy_zero,
        "the copy engine runs AllGathers of registered buffers, without a kernel, and rules do "
        "not apply to them",
        "unset NCCL_CTA_POLICY, unless the multiprocessors must stay free"),
    ST_ROW("efficiency-policy", ST_NOTE, policy_efficiency,
        "this policy lets NCCL prefer NVLS, but not if any tuner plugin is loaded",
        "write a rule with prefer = general:nvls/simple for registered AllGather and "
        "ReduceScatter"),
    ST_ROW("sym-ctas-range", ST_ERROR, sym_ctas_range,
        "NCCL takes 1 to 64 CTAs; 0 leaves the number to its model",
        "set NCCL_SYM_CTAS=32, or unset it"),
    SETTING("sym-ctas-user", ST_NOTE, 0, 0, "NCCL_SYM_CTAS", ST_WHEN_IS_NOT, "0|",
            "your number wins: sym-ctas of the rules and symtuner's defaults are not used",
            "unset NCCL_SYM_CTAS to let the rules decide"),
    SETTING("max-ctas-low", ST_WARNING, 0, 0, "NCCL_MAX_CTAS", ST_WHEN_BELOW, "16",
        "this limit is too low for symmetric kernels, which from 64 KiB on get faster with more "
        "CTAs, up to 16 or 32",
        "unset NCCL_MAX_CTAS"),
    SETTING("max-channels-low", ST_WARNING, 0, 0, "NCCL_MAX_NCHANNELS", ST_WHEN_BELOW, "8",
        "this limit gives general kernels too few channels for large messages",
        "unset NCCL_MAX_NCHANNELS"),
    SETTING("nvls-off", ST_NOTE, 0, 0, "NCCL_NVLS_ENABLE", ST_WHEN_IS, "0",
        "NCCL uses no multicast: it runs neither NVLS nor the symmetric kernels with multicast",
        "unset NCCL_NVLS_ENABLE where multicast is known to work"),
    SETTING("lsa-team-size", ST_WARNING, 22907, 0, "NCCL_LSA_TEAM_SIZE", ST_WHEN_IS_NOT, "0|",
        "if the LSA team is smaller than the node, a communicator on one node gets no symmetric "
        "windows, unless NCCL can use GIN (network access from kernels)",
        "unset NCCL_LSA_TEAM_SIZE"),
    SETTING("rearch", ST_WARNING, 23100, 0, "NCCL_ENQUEUE_REARCH_ENABLE", ST_WHEN_IS, "1",
        "this setting is experimental: symmetric and general kernels compete by predicted time, "
        "and if a tuner writes 0 or -1, no symmetric kernel wins",
        "unset NCCL_ENQUEUE_REARCH_ENABLE"),
    SETTING("launch-blocking", ST_WARNING, 0, 0, "CUDA_LAUNCH_BLOCKING", ST_WHEN_IS, "1",
        "every launch waits until its kernel has ended, so collectives that one thread launches "
        "on several GPUs hang",
        "unset CUDA_LAUNCH_BLOCKING"),
    SETTING("no-gpu-visible", ST_ERROR, 0, 0, "CUDA_VISIBLE_DEVICES", ST_WHEN_IS, "|-1|none",
            "the program sees no GPU", "unset CUDA_VISIBLE_DEVICES"),
    SETTING("debug-trace", ST_NOTE, 0, 0, "NCCL_DEBUG", ST_WHEN_IS, "TRACE",
        "NCCL prints several lines per call, so measured times are not reliable",
        "set NCCL_DEBUG=WARN"),
    ST_ROW("variable-typo", ST_WARNING, variable_typo,
        "NCCL reads no variable of this name, and does not say so",
        "correct the name"),
    ST_ROW("number-expected", ST_WARNING, number_expected,
        "NCCL reads the number at the beginning of the value, or 0 if there is none, and does not "
        "say so; for example it reads true and yes as 0",
        "write a number, for example 1 for yes and 0 for no"),
    ST_ROW_TEXT("conf-file-missing", ST_WARNING, conf_missing,
        "NCCL goes on without the file, and does not say so",
        "correct NCCL_CONF_FILE, or unset it"),
    ST_ROW_TEXT("conf-line", ST_WARNING, conf_fault,
        "NCCL does not read this line as it was meant",
        "write NAME=VALUE, without spaces, quotes or a comment"),
    ST_ROW_TEXT("conf-overridden", ST_NOTE, conf_overridden,
        "NCCL does not take a variable from a file if the variable is already set",
        "remove one of the two settings"),
    ST_ROW("symtuner-variable", ST_WARNING, symtuner_variable,
        "no program reads this variable",
        "symtuner env lists symtuner's variables, and docs/kernels.md those of the kernels"),
    ST_ROW("symtuner-value", ST_ERROR, symtuner_value,
        "this variable of symtuner has no legal value",
        "symtuner env lists the legal values, and docs/kernels.md those of the kernels"),
    SETTING("mode-off", ST_WARNING, 0, 0, "SYMTUNER_MODE", ST_WHEN_IS, "off|observe",
        "in this mode symtuner changes nothing",
        "unset SYMTUNER_MODE, or set it to steer"),
    SETTING("defaults-off", ST_NOTE, 0, 0, "SYMTUNER_DEFAULTS", ST_WHEN_IS, "0",
            "the built-in CTA count for measured boxes is not used", "unset SYMTUNER_DEFAULTS"),
    ST_ROW_OF("xla-starved", ST_WARNING, 0, 23099, xla_starved,
        "psum gets up to 1.3 times slower than with XLA's symmetric flag off, because its kernels "
        "get too few CTAs (measured on 2 and 4 H200s)",
        "set NCCL_ENV_PLUGIN=libsymtuner.so, or NCCL_SYM_CTAS=32"),
    ST_ROW("xla-half", ST_NOTE, xla_half, "XLA registers buffers only when both flags are on",
        "add --xla_gpu_enable_nccl_user_buffers=true"),
    {.id = NULL},
};
