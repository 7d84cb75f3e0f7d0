/* SPDX-License-Identifier: Apache-2.0 */
/* links.h - is it NVLink between two GPUs? */
#ifndef AR_LINKS_H_
#define AR_LINKS_H_

#define AR_BUS_ID_SIZE 20

/*
 * ar_links_between(a, b): AR_LINKS_NVLINK or AR_LINKS_PCIE for the GPUs with these PCI bus ids.
 * Asks CUDA when this process sees both GPUs, else the driver's management library; when neither
 * knows, PCIe, which is the careful answer: no kernel for PCIe relies on what only NVLink promises.
 */
int ar_links_between(const char *a, const char *b);

#endif
