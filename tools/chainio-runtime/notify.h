// Tells the service manager what state the daemon is in, when one asks for it by NOTIFY_SOCKET (systemd, Type=notify).
#pragma once
#include <chrono>
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
    // Where the manager ends who does not say from time to time that he goes on (WATCHDOG_USEC, systemd's WatchdogSec):
    // says so when half of that time is over. No other state gives way to it.
    void go_on(std::chrono::steady_clock::time_point now);
    // How long until that is due, in milliseconds; -1: never.
    int next_ms(std::chrono::steady_clock::time_point now) const;
    int fd() const { return fd_; }

  private:
    bool send_to_it(const std::string& state) const;

    std::string kept_;
    std::chrono::steady_clock::duration each_{};  // half of the watchdog's time; 0: there is none
    std::chrono::steady_clock::time_point due_{};
    int fd_ = -1;  // had from the start on, so that no shortage of descriptors keeps a manager from being told
};

}  // namespace chainio::runtime_tool
