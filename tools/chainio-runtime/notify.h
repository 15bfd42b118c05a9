// Tells the service manager what state the daemon is in, when one asks for it by NOTIFY_SOCKET (systemd, Type=notify).
#pragma once
#include <string>

namespace chainio::runtime_tool {

// "READY=1", "RELOADING=1", "STOPPING=1" and "STATUS=…", separated by line feeds. Nobody listening is no error.
void notify_manager(const std::string& state);

}  // namespace chainio::runtime_tool
