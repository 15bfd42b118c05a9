#include "tools/chainio/start/launch.h"

int main(int argc, char** argv) {
    constexpr int kExitSystem = 3;
    chainio::start::launch(argc, argv);
    return kExitSystem;
}
