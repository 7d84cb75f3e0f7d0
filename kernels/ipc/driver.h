/* SPDX-License-Identifier: Apache-2.0 */
/* driver.h - calls functions of the CUDA driver (libcuda), with which our library is not linked. */
#ifndef AR_DRIVER_H_
#define AR_DRIVER_H_

#include <stdbool.h>

/* Set the function pointer at ${function} to the driver's function ${name}. Returns false if the
 * driver has no such function. */
bool ar_driver_find(const char *name, void *function);

/* Ask for ${n} attributes (enum CUpointer_attribute) of the address ${p}, by
 * cuPointerGetAttributes. Returns 0, or the driver's error. The driver does not write the values of
 * attributes that the memory does not have. */
int ar_driver_ask(unsigned n, int *attributes, void **values, const void *p);

#endif
