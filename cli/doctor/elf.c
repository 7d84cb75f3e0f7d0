/* SPDX-License-Identifier: Apache-2.0 */
/*
 * elf.c - reads from a shared object which plugin symbols it exports, which NCCL release it holds,
 * and where the loader looks for the libraries that it needs. The file is only mapped, because
 * loading it would run the constructors of the library.
 */
#include <elf.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli/doctor/doctor.h"

struct image {
    const unsigned char *at;
    size_t size;
};

static bool map_file(const struct st_doctor *doctor, const char *path, struct image *image)
{
    char full[ST_PATH];
    struct stat stat;
    void *at;
    int fd;

    if (!st_doctor_path(doctor, path, full) ||
        (fd = open(full, O_RDONLY | O_CLOEXEC | O_NONBLOCK)) < 0)
        return false;
    if (fstat(fd, &stat) != 0 || !S_ISREG(stat.st_mode)) {
        close(fd);
        return false;
    }
    image->size = (size_t)stat.st_size;
    at = image->size ? mmap(NULL, image->size, PROT_READ, MAP_PRIVATE, fd, 0) : NULL;
    close(fd);
    image->at = at;
    return at != MAP_FAILED;
}

/* Return the ${size} bytes at ${offset}, or NULL if the file is too short. */
static const void *part(const struct image *image, uint64_t offset, uint64_t size)
{
    return offset <= image->size && size <= image->size - offset ? image->at + offset : NULL;
}

/* Return the ELF header, or NULL if the file is no shared object for this machine's CPU. */
static const Elf64_Ehdr *header(const struct image *image)
{
#if defined(__x86_64__)
    enum { MACHINE = EM_X86_64 };
#elif defined(__aarch64__)
    enum { MACHINE = EM_AARCH64 };
#else
    enum { MACHINE = EM_NONE };
#endif
    const Elf64_Ehdr *head = part(image, 0, sizeof *head);
    bool good = head && memcmp(head->e_ident, ELFMAG, SELFMAG) == 0 &&
                head->e_ident[EI_CLASS] == ELFCLASS64 && head->e_machine == MACHINE &&
                head->e_type == ET_DYN;

    return good ? head : NULL;
}

/* Return section header number ${index}, or NULL if there is none or it lies outside of the
 * file. */
static const Elf64_Shdr *section(const struct image *image, const Elf64_Ehdr *head, int index)
{
    if (index >= head->e_shnum || head->e_shentsize != sizeof(Elf64_Shdr) || head->e_shoff % 8)
        return NULL;
    return part(image, head->e_shoff + (uint64_t)index * sizeof(Elf64_Shdr), sizeof(Elf64_Shdr));
}

static void note_symbol(const char *name, size_t room, struct st_elf *elf)
{
    const struct {
        const char *prefix;
        unsigned *bits;
    } kind[] = {{"ncclTunerPlugin_v", &elf->tuner},
                {"ncclEnvPlugin_v", &elf->env},
                {"ncclProfiler_v", &elf->profiler},
                {"ncclNetPlugin_v", &elf->net},
                {"ncclNet_v", &elf->net}};

    for (size_t k = 0; k < sizeof kind / sizeof *kind; k++) {
        size_t length = strlen(kind[k].prefix);
        int version;

        if (length + 1 >= room || strncmp(name, kind[k].prefix, length) != 0)
            continue;
        version = atoi(name + length);
        if (version > 0 && version < 32)
            *kind[k].bits |= 1u << version;
    }
    elf->symtuner |= strcmp(name, "symtuner_decide") == 0;
    elf->defines_nccl |= strcmp(name, "ncclAllReduce") == 0;
    elf->defines_dlsym |= strcmp(name, "dlsym") == 0;
}

/* A section with entries, and the string table that belongs to it. */
struct table {
    const void *entries;
    uint64_t size;
    const char *names; /* ends with a zero byte */
    uint64_t names_size;
};

/* Find the first section of ${type}. Returns false if the file has none, or if the section is not
 * valid. */
static bool find_table(const struct image *image, const Elf64_Ehdr *head, uint32_t type,
                       struct table *table)
{
    for (int i = 0; i < head->e_shnum; i++) {
        const Elf64_Shdr *one = section(image, head, i), *strings;

        if (!one || one->sh_type != type)
            continue;
        strings = section(image, head, (int)one->sh_link);
        if (!strings || strings->sh_size == 0 || one->sh_offset % 8)
            return false;
        *table = (struct table){.entries = part(image, one->sh_offset, one->sh_size),
                                .size = one->sh_size,
                                .names = part(image, strings->sh_offset, strings->sh_size),
                                .names_size = strings->sh_size};
        return table->entries && table->names && table->names[table->names_size - 1] == '\0';
    }
    return false;
}

static void read_symbols(const struct image *image, const Elf64_Ehdr *head, void *out)
{
    struct st_elf *elf = out;
    struct table table;
    const Elf64_Sym *symbol;

    elf->same_machine = true;
    if (!find_table(image, head, SHT_DYNSYM, &table))
        return;
    symbol = table.entries;
    for (uint64_t s = 0; s < table.size / sizeof *symbol; s++)
        if (symbol[s].st_shndx != SHN_UNDEF && symbol[s].st_name < table.names_size)
            note_symbol(table.names + symbol[s].st_name, table.names_size - symbol[s].st_name, elf);
}

/* If the file is a shared object for this machine's CPU, call ${read}, which fills ${out} from the
 * file. Returns false if the file cannot be read. */
static bool look_into(const struct st_doctor *doctor, const char *path,
                      void (*read)(const struct image *image, const Elf64_Ehdr *head, void *out),
                      void *out)
{
    struct image image;
    const Elf64_Ehdr *head;

    if (!map_file(doctor, path, &image))
        return false;
    head = header(&image);
    if (head)
        read(&image, head, out);
    if (image.size)
        munmap((void *)image.at, image.size);
    return true;
}

bool st_elf_look(const struct st_doctor *doctor, const char *path, struct st_elf *elf)
{
    *elf = (struct st_elf){0};
    return look_into(doctor, path, read_symbols, elf);
}

/* Fill ${out}, a struct st_elf_search, from the file's dynamic section. */
static void read_search(const struct image *image, const Elf64_Ehdr *head, void *out)
{
    struct st_elf_search *search = out;
    struct table table;
    const Elf64_Dyn *entry;

    if (!find_table(image, head, SHT_DYNAMIC, &table))
        return;
    entry = table.entries;
    for (uint64_t e = 0; e < table.size / sizeof *entry; e++) {
        uint64_t at = entry[e].d_un.d_val;

        search->symbolic |= entry[e].d_tag == DT_SYMBOLIC ||
                            (entry[e].d_tag == DT_FLAGS && at & DF_SYMBOLIC);
        if (at >= table.names_size)
            continue;
        if (entry[e].d_tag == DT_RUNPATH || (entry[e].d_tag == DT_RPATH && !search->runpath))
            snprintf(search->path, sizeof search->path, "%s", table.names + at);
        search->runpath |= entry[e].d_tag == DT_RUNPATH;
        search->needs_nccl |=
            entry[e].d_tag == DT_NEEDED && strcmp(table.names + at, "libnccl.so.2") == 0;
    }
}

bool st_elf_look_search(const struct st_doctor *doctor, const char *path,
                        struct st_elf_search *search)
{
    *search = (struct st_elf_search){.runpath = false};
    return look_into(doctor, path, read_search, search);
}

static bool scan(const unsigned char *at, uint64_t size, struct st_copy *copy)
{
    static const char mark[] = "NCCL version 2.";
    const unsigned char *end = at + size;
    char text[40];
    int minor, patch, cuda;

    while ((at = memmem(at, (size_t)(end - at), mark, sizeof mark - 1))) {
        size_t room = (size_t)(end - at) < sizeof text - 1 ? (size_t)(end - at) : sizeof text - 1;

        memcpy(text, at, room);
        text[room] = '\0';
        if (sscanf(text, "NCCL version 2.%d.%d", &minor, &patch) == 2 && minor >= 0 &&
            minor < 100 && patch >= 0 && patch < 100) {
            copy->nccl = 20000 + minor * 100 + patch;
            copy->cuda = sscanf(text, "NCCL version 2.%*d.%*d+cuda%d", &cuda) == 1 ? cuda : 0;
            return true;
        }
        at += sizeof mark - 1;
    }
    return false;
}

/* Find the text with NCCL's release. The text is in .rodata, so search only there: the other
 * sections have hundreds of MiB of device code. */
static void read_nccl(const struct image *image, const Elf64_Ehdr *head, void *copy)
{
    const Elf64_Shdr *names = section(image, head, head->e_shstrndx);

    for (int i = 0; i < head->e_shnum && names; i++) {
        const Elf64_Shdr *one = section(image, head, i);
        const char *name = one && one->sh_name < names->sh_size
                               ? part(image, names->sh_offset + one->sh_name, 8)
                               : NULL;
        const unsigned char *bytes;

        if (!name || memcmp(name, ".rodata", 8) != 0 || one->sh_type != SHT_PROGBITS)
            continue;
        bytes = part(image, one->sh_offset, one->sh_size);
        if (bytes && scan(bytes, one->sh_size, copy))
            return;
    }
}

bool st_elf_nccl(const struct st_doctor *doctor, const char *path, struct st_copy *copy)
{
    copy->nccl = 0;
    if (!look_into(doctor, path, read_nccl, copy) || !copy->nccl)
        return false;
    snprintf(copy->path, sizeof copy->path, "%s", path);
    return true;
}
