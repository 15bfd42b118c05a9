// Chains of an artifact by libchainio-call, from many goroutines at once, each with a handle and a thread of its own.
package main

// #include <chainio.h>
// #include <stdlib.h>
import "C"

import (
	"bytes"
	"fmt"
	"os"
	"runtime"
	"sync"
	"unsafe"
)

const goroutines, rows, inFlight = 8, 2000, 64

// What the file has at each row, by the chain "row" of the artifact; the error is what the library said.
func look(artifact, file string, content []byte) error {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	name := func(text string) *C.char { return (*C.char)(unsafe.Pointer(unsafe.StringData(text + "\x00"))) }
	var handle *C.chainio_handle
	if C.chainio_open(name(artifact), nil, &handle) < 0 {
		return fmt.Errorf("%s", C.GoString(C.chainio_error(nil)))
	}
	defer C.chainio_close(handle)
	refused := func() error { return fmt.Errorf("%s", C.GoString(C.chainio_error(handle))) }
	var opened C.uint64_t
	chain := C.chainio_find_chain(handle, name("row"))
	if chain < 0 || C.chainio_file_open(handle, nil, name(file), C.CHAINIO_FILE_DIRECT, &opened) < 0 {
		return refused()
	}
	tag := C.CBytes([]byte("tag "))
	defer C.free(tag)
	done := make([]C.struct_chainio_completion, inFlight)
	for begun, ended := 0, 0; ended < rows; {
		for ; begun < rows && begun-ended < inFlight; begun++ {
			args := []C.struct_chainio_arg{{kind: C.CHAINIO_FILE, value: opened}, {kind: C.CHAINIO_SCALAR, value: C.uint64_t(begun)}, {kind: C.CHAINIO_BYTES, length: 4, bytes: tag}}
			if C.chainio_submit(handle, C.uint32_t(chain), &args[0], 3, C.uint64_t(begun)) < 0 {
				return refused()
			}
		}
		runtime.Gosched()
		count := C.chainio_reap(handle, &done[0], inFlight, 1)
		if count < 0 {
			return refused()
		}
		for _, one := range done[:count] {
			got := C.GoBytes(one.bytes, C.int(one.length))
			want := append([]byte("tag "), content[one.user_data*8:one.user_data*8+8]...)
			if one.outcome != C.CHAINIO_OK || !bytes.Equal(got, want) {
				return fmt.Errorf("row %d: outcome %d, %q instead of %q", one.user_data, one.outcome, got, want)
			}
		}
		ended += int(count)
	}
	return nil
}

func main() {
	content, err := os.ReadFile(os.Args[2])
	if err != nil {
		panic(err)
	}
	var all sync.WaitGroup
	for i := 0; i < goroutines; i++ {
		all.Add(1)
		go func() {
			defer all.Done()
			if err := look(os.Args[1], os.Args[2], content); err != nil {
				fmt.Println(err)
			}
		}()
	}
	all.Wait()
	fmt.Println("done")
}
