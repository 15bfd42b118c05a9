// "Did you mean", for a spec that is not where it was looked for.
#pragma once
#include <string>

namespace chainio::chainc {

// "did you mean `std/NAME.chain`?": of the specs below the folder `library` the one that `name` is near to, or is but
// for the ending. Empty when there is none.
std::string meant_spec(const std::string& name, const std::string& library);

}  // namespace chainio::chainc
