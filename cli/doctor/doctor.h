/* SPDX-License-Identifier: Apache-2.0 */
/*
 * doctor.h - what the files of `symtuner doctor` share: what is known about the box, and the table
 * of findings.
 *
 * A finding is one row: what to check, for which NCCL releases, how bad the fault is, and the cure.
 * The doctor only reads the box's files, never writes them. It reads them through the functions
 * below, under a root folder, which is "" except in tests. It examines libraries without loading
 * them; only the measurements on GPUs load the CUDA driver and NCCL (gpu.c, windows.c).
 *
 * Units      a release is NCCL's code (22809 for 2.28.9).
 * Ownership  all is in one struct st_doctor, which is static.
 * Errors     if the doctor cannot look at something, that is not a finding; st_doctor_unchecked
 *            lists it.
 */
#ifndef ST_DOCTOR_H_
#define ST_DOCTOR_H_

#include <stdbool.h>
#include <stdio.h>

#include "cli/json.h"
#include "cli/options.h"
#include "symtuner.h"

enum { ST_SETTINGS_MAX = 256, ST_DIRS_MAX = 256, ST_COPIES_MAX = 8, ST_FRAMEWORKS_MAX = 4,
       ST_JUDGED_MAX = ST_FRAMEWORKS_MAX, ST_PRELOADS_MAX = 8, ST_EVIDENCE = 4096, ST_PATH = 1024,
       ST_COPY_TEXT = ST_PATH + 100 };

/* One variable that NCCL sees, and where it comes from. */
struct st_setting {
    char name[64];
    char *value;      /* of any length: a list of folders or rules, for example, may be long */
    char origin[300]; /* "environment" or "FILE:LINE" */
};

/* Which file NCCL loads as its tuner, env or profiler plugin, and what that file exports. */
struct st_plugin {
    const char *variable, *symbol; /* "NCCL_TUNER_PLUGIN", "ncclTunerPlugin_v"               */
    int newest, oldest;            /* versions that this NCCL looks for; newest 0: none      */
    /* the setting of ${variable}, or NULL if it is not set */
    const struct st_setting *asked;
    char tried[ST_EVIDENCE];       /* the file names that NCCL tries, in order               */
    char path[ST_PATH];            /* the file that the loader loads; "": none               */
    /* disabled       the variable is "none"
     * is_static      the variable names the program itself
     * mangled        the value has a slash, and this NCCL makes a different file name of it
     * foreign        the file is not a shared object for this machine
     * unreadable     the file cannot be read
     * by_env_plugin  symtuner's env plugin names the file
     * from_net       the file is the network plugin */
    bool disabled, is_static, mangled, foreign, unreadable, by_env_plugin, from_net;
    bool symtuner;                 /* the file is libsymtuner.so                             */
    int found;                     /* the interface version that NCCL uses; 0: none          */
    char exports[200];             /* the plugin symbols of the file: "tuner v4, env v1"     */
};

/* A file that holds NCCL: a libnccl.so.2, or a library into which NCCL was linked. */
struct st_copy {
    char path[ST_PATH];
    int nccl;                    /* the release of this NCCL                          */
    int cuda;                    /* the major CUDA version of its build; 0: unknown   */
    char package[128];           /* its pip package: "nvidia-nccl-cu12 2.28.9"; or "" */
    unsigned long device, inode; /* identify the file, which may have several names   */
};

/* A package of python3 that calls NCCL, and the copy of NCCL that it would load. */
struct st_framework {
    const char *name;   /* "jax" or "torch"                               */
    char file[ST_PATH]; /* the library that calls NCCL                    */
    int copy;           /* index into st_doctor::copy; -1: it finds no copy */
    const char *how;    /* how it finds the copy, such as "LD_PRELOAD"    */
};

/* What a shared object exports; elf.c reads it without loading the file. */
struct st_elf {
    bool same_machine; /* the file is a shared object for this machine's CPU */
    unsigned tuner, env, profiler, net; /* bit N: exports version N, such as ncclEnvPlugin_vN */
    bool symtuner;                      /* exports symtuner_decide */
    bool defines_nccl, defines_dlsym;   /* exports ncclAllReduce; exports dlsym */
};

/* A library that the loader loads into every program. */
struct st_preload {
    char asked[ST_PATH];                /* the library's name in ${from}                 */
    char path[ST_PATH];                 /* the file that the loader finds; "": none      */
    const char *from;                   /* "LD_PRELOAD" or "/etc/ld.so.preload"          */
    bool loads;                         /* ${path} is a shared object for this CPU       */
    bool dropin;                        /* the name is libsymtuner_nccl.so               */
    struct st_elf elf;
};

struct st_doctor {
    const char *root;
    const char *accept[2];              /* lists of accepted findings (accept.c)              */
    struct st_setting setting[ST_SETTINGS_MAX];
    int settings;
    char conf[3][ST_PATH];              /* the conf files that NCCL reads, in order           */
    int confs;
    char conf_missing[ST_PATH];         /* error text if NCCL_CONF_FILE cannot be read, or "" */
    char conf_fault[600];               /* the first line that NCCL skips or misreads         */
    char conf_overridden[800];          /* the first line that an earlier setting overrides   */
    symtuner_rules *rules;              /* the rules of SYMTUNER_RULES; NULL: none, or wrong  */
    /* what is wrong with SYMTUNER_RULES, SYMTUNER_RULE and NCCL_TUNER_CONFIG_FILE; "": nothing */
    char rules_error[3][SYMTUNER_ERROR_MAX + 32];
    /* which files of SYMTUNER_RULES and NCCL_TUNER_CONFIG_FILE cannot be read, and why; "": none */
    char rules_unread[2 * SYMTUNER_ERROR_MAX + 64];
    char dir[ST_DIRS_MAX][ST_PATH];     /* the folders in which the loader looks, in order    */
    int dirs, dirs_configured;          /* the first dirs_configured are LD_LIBRARY_PATH's    */
    struct st_copy copy[ST_COPIES_MAX]; /* the copies of NCCL that were found                 */
    int copies;
    struct st_preload preload[ST_PRELOADS_MAX]; /* in the order in which they load            */
    int preloads;
    char python[ST_PATH];               /* version and path of python3; "": it did not run    */
    struct st_framework framework[ST_FRAMEWORKS_MAX];
    int frameworks;
    int judged[ST_JUDGED_MAX];          /* the copies to check, as indices into copy[]        */
    int judgeds;                        /* how many copies are to be checked                  */
    int used;                           /* index of the copy that is checked now; -1: none    */
    int nccl;                           /* the release that is checked now                    */
    bool nccl_assumed;                  /* no copy was found, and no release was given        */
    struct st_plugin tuner, env, profiler;
    struct symtuner_machine machine;
    int driver;                         /* the driver's major version; 0: unknown             */
    char driver_text[64];               /* the driver's whole version, such as "580.159.04"   */
    int gpus_on_bus;                    /* NVIDIA GPUs on the PCI bus                         */
    struct st_gpu_report *gpus;         /* what was measured on the GPUs; NULL: nothing       */
    char unchecked[12][160];            /* things that the doctor could not examine           */
    int uncheckeds;
};

enum st_severity { ST_ERROR, ST_WARNING, ST_NOTE };
/* When a finding holds:
 *   CHECK   ${check} returns true
 *   TEXT    the text at offset ${at} of struct st_doctor is not empty; this text is the evidence
 *   SET     ${variable} is set, and its value is not empty
 *   IS      ${variable} is set to one of the words in ${operand}
 *   IS_NOT  ${variable} is set, but to none of the words in ${operand}
 *   BELOW   ${variable} is set to a number below ${operand} */
enum st_when { ST_WHEN_CHECK, ST_WHEN_SET, ST_WHEN_IS, ST_WHEN_IS_NOT, ST_WHEN_BELOW,
               ST_WHEN_TEXT };

struct st_finding {
    const char *id;
    enum st_severity severity;
    int first, last;      /* the releases with the fault; last 0: no limit */
    const char *variable; /* NULL for ST_WHEN_CHECK and ST_WHEN_TEXT       */
    enum st_when when;
    const char *operand;  /* IS, IS_NOT: words "a|b"; BELOW: a number           */
    /* set for ST_WHEN_CHECK: returns whether the finding holds, and fills ${evidence}, which has
     * ST_EVIDENCE bytes */
    bool (*check)(const struct st_doctor *doctor, char *evidence);
    size_t at;            /* set for ST_WHEN_TEXT: offset in struct st_doctor */
    const char *what;     /* one sentence: what the fault does                   */
    const char *cure;
};

/* ST_ROW is a row with a check, for all releases. ST_ROW_OF is a row with a check, for the releases
 * ${first_} to ${last_}. ST_ROW_TEXT is a row for ST_WHEN_TEXT: the finding holds if the member
 * ${text_} of struct st_doctor is not empty. */
#define ST_ROW(id_, severity_, check_, what_, cure_)                                               \
    ST_ROW_OF(id_, severity_, 0, 0, check_, what_, cure_)
#define ST_ROW_OF(id_, severity_, first_, last_, check_, what_, cure_)                             \
    {.id = id_, .severity = severity_, .first = first_, .last = last_, .check = check_,            \
     .what = what_, .cure = cure_}
#define ST_ROW_TEXT(id_, severity_, text_, what_, cure_)                                           \
    {.id = id_, .severity = severity_, .when = ST_WHEN_TEXT,                                       \
     .at = offsetof(struct st_doctor, text_), .what = what_, .cure = cure_}

/* The table of findings, in five parts. A row without an id ends a part. */
extern const struct st_finding st_findings_settings[], st_findings_plugin[], st_findings_dropin[],
    st_findings_box[], st_findings_gpu[];

/* Print the evidence of a finding into ${evidence}. Returns true, so that a check can end with
 * "return condition && st_found(...)". */
bool st_found(char *evidence, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Print the evidence "NAME=VALUE (ORIGIN)" of ${setting} into ${evidence}. If NCCL reads another
 * number from the value than the user meant, this number follows. Returns true. */
bool st_found_setting(char *evidence, const struct st_setting *setting);

/* doctor.c: return row ${index}, counted from 0 through all five parts, or NULL if there is
 * none. */
const struct st_finding *st_finding_get(int index);

/* accept.c: ${list} is "id,id", or NULL. st_doctor_accept_check returns false if a word of the list
 * is not the id of a finding. The reason in ${error} then begins with ${source}, for example
 * "--accept". st_doctor_accepts returns whether the list has ${id}. */
bool st_doctor_accept_check(const char *source, const char *list, char error[ST_OPTION_ERROR]);
bool st_doctor_accepts(const char *list, const char *id);

/* files.c: reads files of the box. Every ${path} is looked up under the root folder. */
/* Set ${full} to the root folder followed by ${path}. Returns false if the result is too long. */
bool st_doctor_path(const struct st_doctor *doctor, const char *path, char full[ST_PATH]);
/* Read at most ${size} - 1 bytes and end them with a zero byte. Returns how many bytes were read,
 * or -1 if the file cannot be read. */
long st_doctor_read(const struct st_doctor *doctor, const char *path, char *text, size_t size);
bool st_doctor_exists(const struct st_doctor *doctor, const char *path);
/* Several files may match a glob pattern. Set ${out} to the path of number ${index} of them,
 * counted from 0, without the root folder. Returns false if fewer files match. */
bool st_doctor_glob(const struct st_doctor *doctor, const char *pattern, int index,
                    char out[ST_PATH]);
/* List ${what} as not checked. */
void st_doctor_unchecked(struct st_doctor *doctor, const char *what);

/* settings.c: st_doctor_settings collects the variables that NCCL of the release ${doctor}->nccl
 * sees; 0 stands for a new release. Call it again if the release changes: pointers that
 * st_doctor_get returned are then no longer valid. st_doctor_get returns one of the variables, or
 * NULL if it is not set. */
void st_doctor_settings(struct st_doctor *doctor);
const struct st_setting *st_doctor_get(const struct st_doctor *doctor, const char *name);

/* setting_values.c: how NCCL reads values. */
/* The doctor has a list of NCCL's variables. Return the name at ${index} in this list, counted from
 * 0, or NULL behind its end. */
const char *st_setting_known(int index);
/* Does NCCL read a number from the setting? If so, sets ${*number_out} to this number, and
 * ${*whole_out} to whether the value has nothing besides the number. Returns false if NCCL does not
 * read the variable as a number, or if NCCL ignores the value. */
bool st_setting_number(const struct st_setting *setting, long long *number_out, bool *whole_out);
/* Is the condition ${when} of a finding true for the setting? ${when} is SET, IS, IS_NOT or
 * BELOW. */
bool st_setting_holds(const struct st_setting *setting, enum st_when when, const char *operand);

/* rules.c: load the rules of SYMTUNER_RULES, SYMTUNER_RULE and NCCL_TUNER_CONFIG_FILE. */
void st_doctor_rules(struct st_doctor *doctor);

/* elf.c: find out what the file exports. Returns false if the file cannot be read. */
bool st_elf_look(const struct st_doctor *doctor, const char *path, struct st_elf *elf_out);
/* Find a text such as "NCCL version 2.28.9+cuda13.0" in the file, and set the members path, nccl
 * and cuda of ${copy_out}. Returns false if the file has no such text. */
bool st_elf_nccl(const struct st_doctor *doctor, const char *path, struct st_copy *copy_out);
/* What a file says about the libraries that it needs, and where the loader looks for them. */
struct st_elf_search {
    char path[4096]; /* the file's RUNPATH; if it has none, its RPATH */
    bool runpath;    /* ${path} is a RUNPATH: the loader searches LD_LIBRARY_PATH first */
    bool needs_nccl; /* a DT_NEEDED entry names libnccl.so.2 */
    bool symbolic;   /* the file calls its own functions directly (-Bsymbolic) */
};
bool st_elf_look_search(const struct st_doctor *doctor, const char *path,
                        struct st_elf_search *search_out);

/* nccl.c: find the copies of NCCL, and choose those to check. ${release} is the user's --nccl
 * (0: not given), ${file} the user's --library (NULL: not given). */
void st_doctor_copies(struct st_doctor *doctor, int release, const char *file);
/* For other commands than the doctor: find the NCCL that programs of this environment load. Fills
 * what st_doctor_copies fills without the user's options. */
void st_doctor_find_nccl(struct st_doctor *doctor);
/* Return the index in copy[] of the first copy to check that is a libnccl.so.2, and not part of jax
 * or torch. Returns -1 if there is none. */
int st_doctor_loadable(const struct st_doctor *doctor);
/* Write "NCCL 2.30.7 of jax and torch (/opt/libnccl.so.2)" into ${text}, for copy[${index}].
 * Returns ${text}. */
char *st_doctor_copy_text(const struct st_doctor *doctor, int index, char text[ST_COPY_TEXT]);
/* Make copy[judged[${index}]] the copy that is checked from now on. */
void st_doctor_use(struct st_doctor *doctor, int index);
/* Return the index of the file ${path} in copy[]; add the file if it is new. Returns -1 if the file
 * holds no NCCL, or if copy[] is full. */
int st_doctor_copy(struct st_doctor *doctor, const char *path);

/* dropin.c: st_doctor_preloads lists the preloaded libraries; call it before st_doctor_copies. The
 * next two functions print which of these libraries is the drop-in, libsymtuner_nccl.so. */
void st_doctor_preloads(struct st_doctor *doctor);
void st_doctor_dropin_print(const struct st_doctor *doctor, FILE *out);
void st_doctor_dropin_json(struct st_json *json, const struct st_doctor *doctor);
/* Does the program ${file} run with other rights than its caller, as with setuid? The loader
 * ignores LD_PRELOAD for such a program. */
bool st_doctor_secure(const char *file);

/* python.c: find the NCCL that jax and torch of this python3 would load. */
void st_doctor_python(struct st_doctor *doctor);

/* plugin.c: list the folders in which the dynamic loader looks. */
void st_doctor_dirs(struct st_doctor *doctor);
/* Find the library ${name} in the folders that st_doctor_dirs listed; a ${name} with a slash is a
 * path. Returns false if there is no such file. */
bool st_doctor_find_library(const struct st_doctor *doctor, const char *name, char out[ST_PATH]);
/* Return the name by which NCCL of the release that is checked now can load symtuner's plugin:
 * "libsymtuner.so" or, if the loader does not find this name, the path of the file beside this
 * command, which is written into ${path}. If there is no file beside the command, or if NCCL takes
 * no path, returns the name. */
const char *st_doctor_symtuner(const struct st_doctor *doctor, char path[ST_PATH]);
/* Return ${cure}, the cure of a finding. If it says to set a variable such as NCCL_ENV_PLUGIN to
 * libsymtuner.so, use the name that st_doctor_symtuner returns instead. The result is then in
 * ${text}. */
const char *st_doctor_cure(const struct st_doctor *doctor, const char *cure,
                           char text[ST_EVIDENCE]);
/* Find the plugins that NCCL of the release that is checked now would load. */
void st_doctor_plugins(struct st_doctor *doctor);

/* box.c: read the driver's version and count the GPUs. */
void st_doctor_box(struct st_doctor *doctor);

/* gpu.c: set doctor->machine. With ${gpus}, also measure on the GPUs and set doctor->gpus. Give up
 * if driver or GPUs do not answer within ${limit_s} seconds. If there are no GPUs, or without
 * ${gpus}, list "GPUs" as not checked. */
void st_doctor_gpu(struct st_doctor *doctor, bool gpus, int limit_s);
void st_doctor_gpu_print(const struct st_doctor *doctor, FILE *out);

#endif
