# packaging.mk - install, and make packages.

LIBDIR ?= $(PREFIX)/lib
PUT     = PREFIX='$(PREFIX)' LIBDIR='$(LIBDIR)' DESTDIR='$(DESTDIR)' VERSION=$(VERSION) \
          sh packaging/install.sh

# What pkg-config says to programs that use a library.
$(B)/symtuner.pc $(B)/symtuner_ar.pc: $(B)/%.pc: packaging/%.pc.in FORCE
	$(Q)sed 's|@PREFIX@|$(PREFIX)|; s|@LIBDIR@|$(LIBDIR:$(PREFIX)/%=$${prefix}/%)|; s|@VERSION@|$(VERSION)|' $< > $@
.PHONY: FORCE install uninstall

# ldconfig: so that the loader finds a bare libsymtuner.so
LDCONFIG = $(if $(DESTDIR),,$(Q)ldconfig 2> /dev/null || true)
install: all $(B)/symtuner.pc $(B)/symtuner_ar.pc
	$(Q)$(PUT) install $(B)
	$(LDCONFIG)
uninstall:
	$(Q)$(PUT) uninstall $(B)
	$(LDCONFIG)
