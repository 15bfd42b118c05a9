// Asks the kernel about an interface.
#pragma once
#include <linux/ethtool.h>
#include <linux/if.h>
#include <linux/sockios.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <string>

namespace chainio::net {

class Asker {
  public:
    explicit Asker(const std::string& name) : fd_(any_socket()), error_(fd_ < 0 ? errno : 0) {
        std::strncpy(request_.ifr_name, name.c_str(), IFNAMSIZ - 1);
    }
    Asker(const Asker&) = delete;
    Asker& operator=(const Asker&) = delete;
    ~Asker() {
        if (fd_ >= 0) close(fd_);
    }
    // Why nothing can be asked, as errno has it; 0: it can.
    int error() const { return error_; }
    bool ask(unsigned long what) { return ioctl(fd_, what, &request_) == 0; }
    // The interface of a number, about which is asked from here on.
    bool use(unsigned index) {
        request_.ifr_ifindex = static_cast<int>(index);
        return ask(SIOCGIFNAME);
    }
    bool ethtool(void* command) {
        request_.ifr_data = static_cast<char*>(command);
        return ask(SIOCETHTOOL);
    }
    const ifreq& answer() const { return request_; }

  private:
    // A socket of any kind will do, and a sandbox may leave some kinds only.
    static int any_socket() {
        for (const int family : {AF_INET, AF_INET6, AF_UNIX}) {
            const int fd = socket(family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
            if (fd >= 0 || (errno != EAFNOSUPPORT && errno != EACCES && errno != EPERM)) return fd;
        }
        return -1;
    }
    int fd_, error_;
    ifreq request_{};
};

}  // namespace chainio::net
