// rapidcheck, whose headers use what C++23 has deprecated and newer standard libraries warn of.
#pragma once
#pragma clang diagnostic push
#pragma clang diagnostic ignored "-Wdeprecated-declarations"
#include <rapidcheck.h>
#pragma clang diagnostic pop
