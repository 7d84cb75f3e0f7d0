/* SPDX-License-Identifier: Apache-2.0 */
/*
 * box.c - findings about the driver, IOMMU, ACS and the container. Reads /proc, /sys and /dev.
 */
#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "cli/doctor/doctor.h"
#include "cli/text.h"

/* Copy the first version number in ${text}, such as 580.159.04, to ${out}. Returns false if there
 * is none. */
static bool version_word(const char *text, char *out, size_t size)
{
    while (*text) {
        size_t length = strspn(text, "0123456789.");

        if (length >= 5 && length < size && isdigit((unsigned char)text[0]) &&
            memchr(text, '.', length)) {
            memcpy(out, text, length);
            out[length] = '\0';
            return true;
        }
        text += length ? length : 1;
    }
    return false;
}

static bool is_nvidia_gpu(const struct st_doctor *d, const char *device)
{
    char path[ST_PATH], text[32];

    snprintf(path, sizeof path, "%.900s/vendor", device);
    if (st_doctor_read(d, path, text, sizeof text) <= 0 || strncmp(text, "0x10de", 6) != 0)
        return false;
    snprintf(path, sizeof path, "%.900s/class", device);
    return st_doctor_read(d, path, text, sizeof text) > 0 && strncmp(text, "0x03", 4) == 0;
}

void st_doctor_box(struct st_doctor *d)
{
    char text[1024], device[ST_PATH];

    if (st_doctor_read(d, "/proc/driver/nvidia/version", text, sizeof text) > 0) {
        text[strcspn(text, "\n")] = '\0';
        if (version_word(text, d->driver_text, sizeof d->driver_text))
            d->driver = atoi(d->driver_text);
    }
    for (int i = 0; st_doctor_glob(d, "/sys/bus/pci/devices/*", i, device); i++)
        d->gpus_on_bus += is_nvidia_gpu(d, device);
}

static bool driver_missing(const struct st_doctor *d, char *evidence)
{
    return d->gpus_on_bus > 0 && d->driver == 0 &&
           st_found(evidence, "%d NVIDIA GPU%s on the PCI bus, no /proc/driver/nvidia/version",
                    d->gpus_on_bus, d->gpus_on_bus == 1 ? "" : "s");
}

/* Is ${library} from CUDA's forward compatibility package, and newer than the kernel module? If so,
 * it may work with that module. Containers have the package in a folder called compat. */
static bool forward_compatible(const struct st_doctor *d, const char *library, const char *version)
{
    return strstr(library, "/compat/") && strverscmp(version, d->driver_text) > 0;
}

/* Does the loader find a libcuda.so.VERSION whose version differs from the kernel module's? */
static bool driver_mismatch(const struct st_doctor *d, char *evidence)
{
    char pattern[ST_PATH], found[ST_PATH], version[64];

    for (int i = 0; i < d->dirs && d->driver; i++) {
        snprintf(pattern, sizeof pattern, "%.900s/libcuda.so.[0-9]*.*", d->dir[i]);
        for (int n = 0; st_doctor_glob(d, pattern, n, found); n++)
            if (version_word(strstr(found, "libcuda.so.") + 11, version, sizeof version) &&
                strcmp(version, d->driver_text) != 0 && !forward_compatible(d, found, version))
                return st_found(evidence, "%s, kernel module %s", found, d->driver_text);
    }
    return false;
}

static bool uvm_missing(const struct st_doctor *d, char *evidence)
{
    return d->driver && !st_doctor_exists(d, "/dev/nvidia-uvm") &&
           st_found(evidence, "driver %s is loaded, /dev/nvidia-uvm is not there", d->driver_text);
}

/* Is there an NVSwitch, but no running fabric manager? A fabric manager that runs has a pid file in
 * /run. A container sees the host's NVSwitches in /proc, but not the host's /run. So there is no
 * finding where systemd does not run, as in containers. */
static bool fabric_manager(const struct st_doctor *d, char *evidence)
{
    return st_doctor_exists(d, "/proc/driver/nvidia-nvswitch/devices") &&
           st_doctor_exists(d, "/run/systemd/system") &&
           !st_doctor_exists(d, "/run/nvidia-fabricmanager/nv-fabricmanager.pid") &&
           !st_doctor_exists(d, "/var/run/nvidia-fabricmanager/nv-fabricmanager.pid") &&
           st_found(evidence, "NVSwitches are here (/proc/driver/nvidia-nvswitch), the fabric "
                              "manager's pid file is not");
}

/* Does the IOMMU translate a GPU's DMA? If so, peer traffic over PCIe goes through the root
 * complex, or is lost. */
static bool iommu_on(const struct st_doctor *d, char *evidence)
{
    char device[ST_PATH], path[ST_PATH], text[32];

    for (int i = 0; st_doctor_glob(d, "/sys/bus/pci/devices/*", i, device); i++) {
        if (!is_nvidia_gpu(d, device))
            continue;
        snprintf(path, sizeof path, "%.900s/iommu_group/type", device);
        if (st_doctor_read(d, path, text, sizeof text) > 0 && strncmp(text, "DMA", 3) == 0) {
            text[strcspn(text, "\n")] = '\0';
            return st_found(evidence, "%s: IOMMU domain %s", device, text);
        }
    }
    return false;
}

/* Return the ACS control register of a PCIe bridge, or -1 if the bridge has none. ${config} is the
 * bridge's configuration space. */
static int acs_control(const unsigned char *config, long size)
{
    long at = 0x100;

    for (int steps = 0; at >= 0x100 && at + 8 <= size && steps < 64; steps++) {
        unsigned head = config[at] | config[at + 1] << 8 | config[at + 2] << 16 |
                        (unsigned)config[at + 3] << 24;

        if (head == 0 || head == 0xffffffff)
            return -1;
        if ((head & 0xffff) == 0x000d)
            return config[at + 6] | config[at + 7] << 8;
        at = head >> 20;
    }
    return -1;
}

/* Does a bridge send peer traffic to the root complex? Each bit of REDIRECTS in a bridge's ACS
 * control register makes the bridge do this: request redirect, completion redirect, upstream
 * forwarding. */
static bool acs_on(const struct st_doctor *d, char *evidence)
{
    enum { REDIRECTS = 1 << 2 | 1 << 3 | 1 << 4 };
    static char config[4097];
    char device[ST_PATH], path[ST_PATH], text[32];
    int bridges = 0;
    size_t at = 0;

    for (int i = 0; st_doctor_glob(d, "/sys/bus/pci/devices/*", i, device); i++) {
        long size;
        int control;

        snprintf(path, sizeof path, "%.900s/class", device);
        if (st_doctor_read(d, path, text, sizeof text) <= 0 || strncmp(text, "0x0604", 6) != 0)
            continue;
        snprintf(path, sizeof path, "%.900s/config", device);
        size = st_doctor_read(d, path, config, sizeof config);
        control = size > 0x100 ? acs_control((const unsigned char *)config, size) : -1;
        if (control > 0 && control & REDIRECTS) {
            if (bridges++ == 0)
                at = st_text_add(evidence, ST_EVIDENCE, 0, "bridge %s: ACS control 0x%02x", device,
                                 control);
        }
    }
    if (bridges > 1)
        st_text_add(evidence, ST_EVIDENCE, at, ", and %d more", bridges - 1);
    return bridges > 0 && d->gpus_on_bus > 1;
}

/* Does /dev/shm have at most 64 MiB? The line in /proc/mounts that has its size looks like this:
 * "shm /dev/shm tmpfs rw,...,size=65536k 0 0". */
static bool shm_small(const struct st_doctor *d, char *evidence)
{
    static char text[65536];
    const char *line, *size;
    unsigned long long number;
    char unit = 'b';

    if (st_doctor_read(d, "/proc/mounts", text, sizeof text) <= 0)
        return false;
    line = strstr(text, " /dev/shm ");
    size = line ? strstr(line, "size=") : NULL;
    if (!size || memchr(line, '\n', (size_t)(size - line)) ||
        sscanf(size, "size=%llu%c", &number, &unit) < 1)
        return false;
    number <<= unit == 'k' ? 10 : unit == 'm' ? 20 : unit == 'g' ? 30 : 0;
    return number <= (unsigned long long)64 << 20 &&
           st_found(evidence, "/dev/shm has %llu MiB", number >> 20);
}

static bool memlock_low(const struct st_doctor *d, char *evidence)
{
    static char text[8192];
    const char *line;
    unsigned long long bytes;

    if (st_doctor_read(d, "/proc/self/limits", text, sizeof text) <= 0 ||
        !(line = strstr(text, "Max locked memory")) ||
        sscanf(line, "Max locked memory %llu", &bytes) != 1)
        return false;
    return bytes < (unsigned long long)1 << 30 && st_doctor_exists(d, "/sys/class/infiniband/.") &&
           d->gpus_on_bus > 0 &&
           st_found(evidence, "locked memory is limited to %llu KiB, and InfiniBand is here",
                    bytes >> 10);
}

static bool numa_balancing(const struct st_doctor *d, char *evidence)
{
    char text[16];

    return d->gpus_on_bus > 0 &&
           st_doctor_read(d, "/proc/sys/kernel/numa_balancing", text, sizeof text) > 0 &&
           text[0] != '0' && st_found(evidence, "/proc/sys/kernel/numa_balancing is not 0");
}

static bool p2p_module_off(const struct st_doctor *d, char *evidence)
{
    char text[256];

    return st_doctor_read(d, "/proc/driver/nvidia/params", text, sizeof text) >= 0 &&
           (strstr(text, "ForceP2P=0x11") || strstr(text, "PeerMappingOverride=0")) &&
           st_found(evidence, "the kernel module was loaded with P2P switched off");
}

const struct st_finding st_findings_box[] = {
    ST_ROW("driver-missing", ST_ERROR, driver_missing,
        "there are GPUs, but their driver is not loaded",
        "load the nvidia module; start a container with GPU support"),
    ST_ROW("driver-mismatch", ST_ERROR, driver_mismatch,
        "the driver's library and its kernel module must have the same version",
        "reboot after a driver update, or update the container's driver mount"),
    ST_ROW("uvm-missing", ST_ERROR, uvm_missing,
        "CUDA cannot start without this device",
        "run modprobe nvidia-uvm, or give the device to the container"),
    ST_ROW("fabric-manager", ST_NOTE, fabric_manager,
        "without the fabric manager, NVSwitch machines have no NVLink; for a virtual machine, the "
        "host runs it",
        "install the fabric manager of the driver's version, and run systemctl start "
        "nvidia-fabricmanager"),
    ST_ROW("iommu-translates", ST_WARNING, iommu_on,
        "the IOMMU translates addresses, so peer access over PCIe is slow, or writes are lost",
        "boot with iommu=pt, or switch the IOMMU off"),
    ST_ROW("acs-on", ST_WARNING, acs_on,
        "access control services (ACS) lead data between GPUs on PCIe through the root complex "
        "instead of the switch",
        "switch ACS off for these bridges (BIOS, or setpci at boot), except in a virtual machine"),
    ST_ROW("shm-small", ST_WARNING, shm_small,
        "/dev/shm has a container's default size, but NCCL needs more for its queues, and dies "
        "with a bus error",
        "start the container with --shm-size=1g or --ipc=host"),
    ST_ROW("memlock-low", ST_WARNING, memlock_low,
        "InfiniBand cannot register buffers, because the limit on locked memory is too low",
        "run ulimit -l unlimited; start a container with --ulimit memlock=-1"),
    ST_ROW("p2p-module-off", ST_ERROR, p2p_module_off,
        "the nvidia module was loaded with peer access switched off",
        "remove ForceP2P and PeerMappingOverride from the module's options"),
    ST_ROW("numa-balancing", ST_NOTE, numa_balancing,
        "Linux moves memory pages between NUMA nodes, and a call takes longer while pages move",
        "run sysctl kernel.numa_balancing=0"),
    {.id = NULL},
};
