// What `chainio` does: starts the program of a `chainio run` whose spec is in the cache, and becomes `chainio-run`
// once there is something to do beside it. Any other run is chainio-run's from the start, any other command
// chainio-main's.
#pragma once

namespace chainio::start {

// Ends as the program did, or as what it has become. Returns only where that cannot be executed, which it has said
// then.
void launch(int argc, char** argv);

}  // namespace chainio::start
