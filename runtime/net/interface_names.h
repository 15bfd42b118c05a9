// Names of interfaces and their numbers, as <net/if.h> has them, which does not go together with <linux/if.h>.
#pragma once

extern "C" unsigned if_nametoindex(const char* name);
extern "C" char* if_indextoname(unsigned index, char* name);
