// The XDP program's object file as bytes of ours: nothing has to be found or compiled at run time.
__asm__(
    ".pushsection .rodata\n"
    ".balign 8\n"
    ".global chainio_xdp_object, chainio_xdp_object_end\n"
    "chainio_xdp_object:\n"
    ".incbin \"" CHAINIO_XDP_OBJECT
    "\"\n"
    "chainio_xdp_object_end:\n"
    ".byte 0\n"
    ".popsection\n");
