// What `chainio` does: starts the program of a `chainio run` whose spec is in the cache, and becomes `chainio-main`
// once there is something to do beside it. Everything else is chainio-main's from the start.
#pragma once

namespace chainio::start {

// Ends as the program did, or as chainio-main. Returns only where chainio-main cannot be executed, which it has said
// then.
void launch(int argc, char** argv);

}  // namespace chainio::start
