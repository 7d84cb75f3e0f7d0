/* SPDX-License-Identifier: Apache-2.0 */
/* links.h - find out whether NVLink or PCIe connects two GPUs. */
#ifndef AR_LINKS_H_
#define AR_LINKS_H_

#define AR_BUS_ID_SIZE 20

/*
 * ar_links_between(a, b): return AR_LINKS_NVLINK or AR_LINKS_PCIE for the GPUs with these PCI bus
 * ids. Asks CUDA if this process sees both GPUs, otherwise NVML. If neither knows, the answer is
 * PCIe. That is safe, because kernels for PCIe rely on nothing that only NVLink promises.
 */
int ar_links_between(const char *a, const char *b);

#endif
