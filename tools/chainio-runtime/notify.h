// Tells the service manager what state the daemon is in, when one asks for it by NOTIFY_SOCKET (systemd, Type=notify).
#pragma once
#include <string>

namespace chainio::runtime_tool {

class Manager {
  public:
    Manager();
    ~Manager();
    Manager(const Manager&) = delete;
    Manager& operator=(const Manager&) = delete;

    // "READY=1", "RELOADING=1", "STOPPING=1" and "STATUS=…", separated by line feeds. Nobody listening is no error.
    // While a manager has no room for it, it is kept, until a newer state takes its place.
    void tell(std::string state);
    // Once fd() has room for it (EPOLLOUT).
    void tell_kept() { tell(std::move(kept_)); }
    bool keeps() const { return !kept_.empty(); }
    int fd() const { return fd_; }

  private:
    std::string kept_;
    int fd_ = -1;  // had from the start on, so that no shortage of descriptors keeps a manager from being told
};

}  // namespace chainio::runtime_tool
