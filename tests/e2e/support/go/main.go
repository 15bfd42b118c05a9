// What Go programs do with system calls, for run_go.py: `range DB INDEX TABLE LOW HIGH` walks an SQLite index and looks its rows up;
// `stress FILE` keeps the runtime busy meanwhile; `again FILE` says how long a file is. Linked to libc by `import "C"`.
package main

// #include <unistd.h>
import "C"

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"runtime/debug"
	"runtime/pprof"
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

const pageSize = 4096

func must(err error) {
	if err != nil {
		panic(err)
	}
}

type database struct{ file *os.File }

// A page, and where its header is.
func (db database) page(number uint32) ([]byte, int) {
	page := make([]byte, pageSize)
	_, err := db.file.ReadAt(page, int64(number-1)*pageSize)
	must(err)
	if number == 1 {
		return page, 100
	}
	return page, 0
}

func varint(b []byte) (int64, int) {
	var value uint64
	for i := 0; i < 8; i++ {
		value = value<<7 | uint64(b[i]&0x7f)
		if b[i] < 0x80 {
			return int64(value), i + 1
		}
	}
	return int64(value<<8 | uint64(b[8])), 9
}

func (db database) cells(number uint32) (page []byte, kind byte, at []int, right uint32) {
	page, head := db.page(number)
	kind = page[head]
	pointers := head + 8
	if kind == 2 || kind == 5 {
		right = binary.BigEndian.Uint32(page[head+8:])
		pointers += 4
	}
	for i := 0; i < int(binary.BigEndian.Uint16(page[head+3:])); i++ {
		at = append(at, int(binary.BigEndian.Uint16(page[pointers+2*i:])))
	}
	return
}

func number(b []byte, serial int64) int64 {
	if serial >= 8 {
		return serial - 8
	}
	var value int64
	for _, each := range b[:[]int{0, 1, 2, 3, 4, 6, 8}[serial]] {
		value = value<<8 | int64(each)
	}
	return value
}

// The first integer column and the rowid behind it, of an index's record.
func record(b []byte) (int64, int64) {
	size, n := varint(b)
	first, m := varint(b[n:])
	second, _ := varint(b[n+m:])
	width := 0
	if first < 8 {
		width = []int{0, 1, 2, 3, 4, 6, 8}[first]
	}
	return number(b[size:], first), number(b[int(size)+width:], second)
}

func (db database) scan(number uint32, low, high int64, each func(key, rowid int64)) {
	page, kind, at, right := db.cells(number)
	for _, cell := range at {
		b := page[cell:]
		if kind == 2 {
			b = b[4:]
		}
		_, n := varint(b)
		key, rowid := record(b[n:])
		if kind == 2 && key >= low {
			db.scan(binary.BigEndian.Uint32(page[cell:]), low, high, each)
		}
		if key > high {
			return
		}
		if key >= low {
			each(key, rowid)
		}
	}
	if kind == 2 {
		db.scan(right, low, high, each)
	}
}

func (db database) row(number uint32, rowid int64) []byte {
	page, kind, at, right := db.cells(number)
	for _, cell := range at {
		if kind == 5 {
			if key, _ := varint(page[cell+4:]); rowid <= key {
				return db.row(binary.BigEndian.Uint32(page[cell:]), rowid)
			}
			continue
		}
		size, n := varint(page[cell:])
		if key, m := varint(page[cell+n:]); key == rowid {
			return page[cell+n+m : cell+n+m+int(size)]
		}
	}
	if kind == 13 {
		panic("no such row")
	}
	return db.row(right, rowid)
}

func walk(arguments []string) {
	file, err := os.Open(arguments[0])
	must(err)
	numbers := make([]int64, 4)
	for i := range numbers {
		numbers[i], err = strconv.ParseInt(arguments[i+1], 10, 64)
		must(err)
	}
	db, rows, sum := database{file}, 0, crc32.NewIEEE()
	db.scan(uint32(numbers[0]), numbers[2], numbers[3], func(key, rowid int64) {
		rows++
		fmt.Fprint(sum, key, rowid)
		sum.Write(db.row(uint32(numbers[1]), rowid))
	})
	fmt.Println(rows, sum.Sum32())
}

// ---- stress ----

func sumOf(path string) uint32 {
	file, err := os.Open(path)
	must(err)
	defer file.Close()
	sum := crc32.NewIEEE()
	_, err = io.Copy(struct{ io.Writer }{sum}, file)
	must(err)
	return sum.Sum32()
}

func reads(path string, whole []byte, rounds int) {
	file, err := os.Open(path)
	must(err)
	defer file.Close()
	buffer := make([]byte, 700)
	for i := 0; i < rounds; i++ {
		at := i * 7919 % (len(whole) - len(buffer))
		_, err := file.ReadAt(buffer, int64(at))
		must(err)
		if !bytes.Equal(buffer, whole[at:at+len(buffer)]) {
			panic("other bytes")
		}
	}
}

//go:noinline
func deep(n int) int {
	var pad [200]byte
	pad[n%200] = 1
	if n == 0 {
		return int(pad[0])
	}
	return deep(n-1) + int(pad[n%200])
}

func nils(rounds int) (caught int) {
	var pointer *struct{ a, b [64]int }
	for i := 0; i < rounds; i++ {
		func() {
			defer func() {
				if recover() != nil {
					caught++
				}
			}()
			if i%2 == 0 {
				pointer.b[i%64] = 1
			} else {
				caught += pointer.a[i%64]
			}
		}()
	}
	return
}

func children(path string, count int) (sum uint32) {
	for i := 0; i < count; i++ {
		out, err := exec.Command("cat", path).Output()
		must(err)
		sum += crc32.ChecksumIEEE(out)
		out, err = exec.Command(os.Args[0], "again", path).Output()
		must(err)
		sum += crc32.ChecksumIEEE(out)
	}
	if exec.Command("/no-such-program").Run() == nil {
		panic("it ran")
	}
	return
}

func web(path string, whole []byte, count int) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	must(err)
	go http.Serve(listener, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { http.ServeFile(w, r, path) }))
	var group sync.WaitGroup
	for i := 0; i < 8; i++ {
		group.Add(1)
		go func() {
			defer group.Done()
			for j := 0; j < count; j++ {
				answer, err := http.Get("http://" + listener.Addr().String() + "/")
				must(err)
				body, err := io.ReadAll(answer.Body)
				must(err)
				answer.Body.Close()
				if !bytes.Equal(body, whole) {
					panic("another answer")
				}
			}
		}()
	}
	group.Wait()
}

func stress(path string) {
	whole, err := os.ReadFile(path)
	must(err)
	debug.SetGCPercent(5)
	runtime.GOMAXPROCS(4)
	var profile bytes.Buffer
	must(pprof.StartCPUProfile(&profile))
	done, signals := make(chan bool), make(chan os.Signal, 1000)
	signal.Notify(signals, syscall.SIGUSR1)
	var spun int64
	for i := 0; i < 2; i++ { // loops that only a signal interrupts
		go func() {
			for n := 0; ; n++ {
				if n%(1<<28) == 0 {
					select {
					case <-done:
						return
					default:
					}
				}
				spun += int64(n)
			}
		}()
	}
	go func() {
		for {
			select {
			case <-done:
				return
			default:
				syscall.Kill(syscall.Getpid(), syscall.SIGUSR1)
				time.Sleep(time.Millisecond)
			}
		}
	}()
	var group sync.WaitGroup
	var caught, sum int64
	work := func(f func()) {
		group.Add(1)
		go func() { defer group.Done(); f() }()
	}
	for i := 0; i < 12; i++ {
		work(func() { reads(path, whole, 4000) })
		work(func() { atomic.AddInt64(&caught, int64(nils(300))) })
		work(func() {
			runtime.LockOSThread() // and ends: its thread ends with it
			reads(path, whole, 300)
			atomic.AddInt64(&sum, int64(C.getpid())-int64(os.Getpid()))
		})
		work(func() { atomic.AddInt64(&sum, int64(deep(5000+i))*0+int64(sumOf(path))) })
	}
	work(func() { atomic.AddInt64(&sum, int64(children(path, 10))) })
	work(func() { web(path, whole, 20) })
	work(func() {
		for i := 0; i < 30; i++ {
			runtime.GC()
		}
	})
	group.Wait()
	close(done)
	pprof.StopCPUProfile()
	_, missing := os.Open(path + ".none")
	fmt.Println(caught, sum, len(signals) > 0, profile.Len() > 0, missing != nil)
}

func main() {
	switch os.Args[1] {
	case "range":
		walk(os.Args[2:])
	case "stress":
		stress(os.Args[2])
	case "again":
		fmt.Println(sumOf(os.Args[2]))
	}
}
