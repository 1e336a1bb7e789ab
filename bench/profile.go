package main

import (
	"errors"
	"os"
	"runtime"
	"runtime/pprof"
)

// profile starts the profiles that were asked for; finish writes them.
func profile(cpuPath, memPath string) (finish func() error, err error) {
	var cpu *os.File
	if cpuPath != "" {
		if cpu, err = os.Create(cpuPath); err != nil {
			return nil, err
		}
		if err := pprof.StartCPUProfile(cpu); err != nil {
			return nil, errors.Join(err, cpu.Close())
		}
	}
	if memPath != "" {
		runtime.MemProfileRate = 1 // count each allocation, not a sample by size
	}
	return func() error {
		var errs []error
		if cpu != nil {
			pprof.StopCPUProfile()
			errs = append(errs, cpu.Close())
		}
		if memPath != "" {
			f, err := os.Create(memPath)
			if err != nil {
				return errors.Join(append(errs, err)...)
			}
			errs = append(errs, pprof.Lookup("allocs").WriteTo(f, 0), f.Close())
		}
		return errors.Join(errs...)
	}, nil
}
