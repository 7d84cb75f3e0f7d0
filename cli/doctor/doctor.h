/* SPDX-License-Identifier: Apache-2.0 */
/*
 * doctor.h - what the files of `symtuner doctor` share: what is known about the box, and the table
 * of findings.
 *
 * A finding is one row: what to check, for which NCCL releases, how bad it is, and the cure. All
 * files of the box are read through the functions below, under a root folder that tests replace;
 * nothing there is written, started or loaded.
 *
 * Units      a release is NCCL's code (22809). Ownership  one struct st_doctor, static.
 * Errors     what cannot be looked at is not a finding: it is listed as not checked.
 */
#ifndef ST_DOCTOR_H_
#define ST_DOCTOR_H_

#include <stdbool.h>
#include <stdio.h>

#include "cli/options.h"
#include "symtuner.h"

enum { ST_SETTINGS_MAX = 256, ST_DIRS_MAX = 48, ST_COPIES_MAX = 8, ST_FRAMEWORKS_MAX = 4,
       ST_JUDGED_MAX = ST_FRAMEWORKS_MAX, ST_EVIDENCE = 4096, ST_PATH = 1024 };

/* One variable that NCCL sees, and where it comes from. */
struct st_setting {
    char name[64];
    char value[512];
    char origin[300]; /* "environment" or "FILE:LINE" */
};

/* How NCCL resolves NCCL_TUNER_PLUGIN and the like. */
struct st_plugin {
    const char *variable, *symbol; /* ncclTunerPlugin_v */
    int newest, oldest;            /* versions that this release looks up; newest 0: none    */
    const struct st_setting *asked;
    char tried[ST_EVIDENCE];       /* names, in order                                        */
    char path[ST_PATH];            /* the file that the loader takes; "" when none           */
    bool disabled, is_static, mangled, foreign, unreadable, by_env_plugin, from_net;
    bool symtuner;                 /* the file is libsymtuner.so                             */
    int found;                     /* the version that NCCL uses; 0: none                    */
    char exports[200];             /* plugin symbols that the file does export               */
};

struct st_copy {
    char path[ST_PATH];
    int nccl;
    int cuda;                    /* major version that it was built for, 0 unknown */
    char package[128];           /* of pip: "nvidia-nccl-cu12 2.28.9"; "": none    */
    unsigned long device, inode; /* of the file, which may have several names      */
};

/* A package of python3 that calls NCCL, and the copy of NCCL that it would load. */
struct st_framework {
    const char *name;   /* "jax"                                       */
    char file[ST_PATH]; /* the library that calls NCCL                 */
    int copy;           /* -1: none is found                           */
    const char *how;    /* "LD_PRELOAD"                                */
};

struct st_doctor {
    const char *root;
    const char *accept[2];              /* findings that do not count: --accept, the variable */
    struct st_setting setting[ST_SETTINGS_MAX];
    int settings;
    char conf[3][ST_PATH];              /* files that NCCL reads, in order                    */
    int confs;
    char conf_missing[ST_PATH];
    char conf_fault[600];               /* the first line of a conf file that NCCL misreads   */
    char conf_overridden[800];          /* the first that an earlier setting overrides        */
    symtuner_rules *rules;              /* of SYMTUNER_RULES; NULL: none, or wrong ones       */
    char rules_error[SYMTUNER_ERROR_MAX], rule_error[SYMTUNER_ERROR_MAX];
    char csv_error[SYMTUNER_ERROR_MAX]; /* "" when the file is right or not named             */
    char dir[ST_DIRS_MAX][ST_PATH];     /* where the loader looks                             */
    int dirs, dirs_configured;          /* the first ones are LD_LIBRARY_PATH                 */
    struct st_copy copy[ST_COPIES_MAX]; /* of libnccl.so.2                                    */
    int copies;
    char python[ST_PATH];               /* version and path; "": none, or not asked           */
    struct st_framework framework[ST_FRAMEWORKS_MAX];
    int frameworks;
    int judged[ST_JUDGED_MAX];          /* copies to check for: one for each release          */
    int judgeds;
    int used;                           /* the copy checked now; -1: a release only           */
    int nccl;                           /* its release                                        */
    bool nccl_assumed;
    struct st_plugin tuner, env, profiler;
    struct symtuner_machine machine;
    int driver;                         /* major version; 0 unknown                           */
    char driver_text[64];
    int gpus_on_bus;
    struct st_gpu_report *gpus;         /* NULL if no GPU answers                             */
    char unchecked[12][160];
    int uncheckeds;
};

enum st_severity { ST_ERROR, ST_WARNING, ST_NOTE };
enum st_when { ST_WHEN_CHECK, ST_WHEN_SET, ST_WHEN_IS, ST_WHEN_IS_NOT, ST_WHEN_BELOW };

struct st_finding {
    const char *id;
    enum st_severity severity;
    int first, last;      /* releases; 0 and 0: all                              */
    const char *variable; /* a setting that ...                                  */
    enum st_when when;    /* ... is set, is one of "a|b", is none of them, is below */
    const char *operand;
    bool (*check)(const struct st_doctor *doctor, char *evidence); /* ST_WHEN_CHECK */
    const char *what;     /* one sentence: what it does to NCCL                  */
    const char *cure;
};

/* The table, in parts. */
extern const struct st_finding st_findings_settings[], st_findings_plugin[], st_findings_box[],
    st_findings_gpu[];
extern const int st_findings_settings_count, st_findings_plugin_count, st_findings_box_count,
    st_findings_gpu_count;

/* doctor.c: row ${index} of all parts together, NULL past the last. */
const struct st_finding *st_finding_get(int index);

/* accept.c: ${list} is "id,id", or NULL. The check returns false if a word is no finding; ${error}
 * then begins with ${source}. */
bool st_doctor_accept_check(const char *source, const char *list, char error[ST_OPTION_ERROR]);
bool st_doctor_accepts(const char *list, const char *id);

/* files.c: the box under the root */
bool st_doctor_path(const struct st_doctor *doctor, const char *path, char full[ST_PATH]);
/* Read at most ${size} - 1 bytes and end them with a zero byte; -1 if the file cannot be read. */
long st_doctor_read(const struct st_doctor *doctor, const char *path, char *text, size_t size);
bool st_doctor_exists(const struct st_doctor *doctor, const char *path);
/* Match ${index} of a glob pattern, without the root; false past the last. */
bool st_doctor_glob(const struct st_doctor *doctor, const char *pattern, int index,
                    char out[ST_PATH]);
void st_doctor_unchecked(struct st_doctor *doctor, const char *what);

/* settings.c */
void st_doctor_settings(struct st_doctor *doctor);
const struct st_setting *st_doctor_get(const struct st_doctor *doctor, const char *name);

/* rules.c: load what SYMTUNER_RULES, SYMTUNER_RULE and NCCL_TUNER_CONFIG_FILE name. */
void st_doctor_rules(struct st_doctor *doctor);

/* elf.c: reads shared objects without loading them */
struct st_elf {
    bool same_machine; /* a shared object of this machine */
    unsigned tuner, env, profiler, net; /* bit N: exports ncclTunerPlugin_vN ... */
    bool symtuner;
};
/* False when the file cannot be read. */
bool st_elf_look(const struct st_doctor *doctor, const char *path, struct st_elf *elf_out);
/* Find "NCCL version 2.28.9+cuda13.0" in the file; false if there is none. */
bool st_elf_nccl(const struct st_doctor *doctor, const char *path, struct st_copy *copy_out);
/* Where the loader looks for the libraries that this file needs: its RUNPATH, or without one its
 * RPATH. */
struct st_elf_search {
    char path[4096];
    bool runpath;    /* ${path} is a RUNPATH: LD_LIBRARY_PATH goes before it */
    bool needs_nccl; /* libnccl.so.2 is among its NEEDED */
};
bool st_elf_look_search(const struct st_doctor *doctor, const char *path,
                        struct st_elf_search *search_out);

/* nccl.c: find the copies of NCCL. ${release} and ${file} are the user's, 0 and NULL if not
 * given. */
void st_doctor_copies(struct st_doctor *doctor, int release, const char *file);
/* Check for the copy judged[${index}] from now on. */
void st_doctor_use(struct st_doctor *doctor, int index);
/* Which copy the file is; a new one is added. -1 if the file is no NCCL. */
int st_doctor_copy(struct st_doctor *doctor, const char *path);

/* python.c: find the NCCL that jax and torch of this python3 would load. */
void st_doctor_python(struct st_doctor *doctor);

/* plugin.c, box.c */
void st_doctor_dirs(struct st_doctor *doctor);
bool st_doctor_find_library(const struct st_doctor *doctor, const char *name, char out[ST_PATH]);
void st_doctor_plugins(struct st_doctor *doctor);
void st_doctor_box(struct st_doctor *doctor);

/* gpu.c: measure on the GPUs; without any it does nothing. */
void st_doctor_gpu(struct st_doctor *doctor);
void st_doctor_gpu_print(const struct st_doctor *doctor, FILE *out);

#endif
