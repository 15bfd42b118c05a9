// What options are called where somebody reads an error about them.
#pragma once

namespace chainio::engine {

struct OptionNames {  // unless said otherwise those of the command line
    const char* memory = "--memory";
    const char* in_flight = "--in-flight";
    const char* user_engine = "--engine=user";
};

}  // namespace chainio::engine
