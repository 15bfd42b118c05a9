// A file system that passes everything on to a folder, and reads as slowly as a volume in a cloud.
#pragma once
#include <string>

#include "tools/cloud_volume/pace.h"

struct fuse_lowlevel_ops;

namespace chainio::cloud {

// A file of zeros that no listing shows: with it the program measures what the way through the kernel takes.
inline constexpr char kProbe[] = ".cloud-volume-probe";
inline constexpr std::int64_t kProbeBytes = 1 << 20;
inline constexpr unsigned kReadAhead = 128 * 1024;

class Volume;
Volume* make_volume(const std::string& source, const PaceOptions& options);
void end_volume(Volume* volume);
Pace& pace_of(Volume& volume);
const fuse_lowlevel_ops& operations();

}  // namespace chainio::cloud
