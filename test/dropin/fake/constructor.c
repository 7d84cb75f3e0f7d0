/* SPDX-License-Identifier: Apache-2.0 */
/* constructor.c - a library whose constructor calls a function of the program (loading.c). */
void constructed(void);

__attribute__((constructor)) static void construct(void)
{
    constructed();
}
