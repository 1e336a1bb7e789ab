// Command mutants breaks a copy of the repository in many ways, one at a time, and shows
// which test notices each. It exits with 1 if one survives, does not compile or no
// longer fits the code. Run it from the root of the repository.
package main

import (
	"context"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/quorumlock/redlock/internal/mutants"
)

// patience is how long the tests of one mutant may take; a test that hangs has noticed.
const patience = 2 * time.Minute

func main() {
	only := flag.String("run", "", "only mutants whose rule matches this regular expression")
	output := flag.Bool("v", false, "print what the tests say of each mutant")
	flag.Parse()
	wanted, err := regexp.Compile(*only)
	if err == nil {
		err = run(wanted, *output)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(wanted *regexp.Regexp, output bool) error {
	root, err := os.MkdirTemp("", "redlock-mutants")
	if err != nil {
		return err
	}
	defer os.RemoveAll(root) //nolint:errcheck // it is the system's to clean
	if err := copyTree(".", root); err != nil {
		return err
	}
	table := slices.DeleteFunc(mutants.Table(), func(m mutants.Mutant) bool { return !wanted.MatchString(m.Rule) })
	if err := sound(root, table); err != nil {
		return err
	}
	fmt.Printf("%-62s %-56s %s\n", "broken", "noticed by", "seconds")
	left := []string(nil)
	for _, m := range table {
		r, err := try(root, m)
		if err != nil {
			return err
		}
		if r.by == "" {
			left = append(left, m.Rule)
			r.by = "SURVIVED"
		}
		fmt.Printf("%-62s %-56s %7.1f\n", m.Rule, r.by, r.took.Seconds())
		if output {
			fmt.Println(r.said)
		}
	}
	if len(left) > 0 {
		return fmt.Errorf("%d of %d survived: %s", len(left), len(table), strings.Join(left, "; "))
	}
	fmt.Printf("%d mutants, all noticed\n", len(table))
	return nil
}

// sound sees that the tests pass before anything is broken, each directory's at once.
func sound(root string, table []mutants.Mutant) error {
	names := map[string][]string{}
	for _, m := range table {
		names[m.Package()] = append(names[m.Package()], m.Test)
	}
	for dir, tests := range names {
		pattern := "^(" + strings.Join(tests, "|") + ")$"
		said, err := test(root, dir, pattern, 2*patience)
		if err != nil { // once more, for a machine that had other things to do
			said, err = test(root, dir, pattern, 2*patience)
		}
		if err != nil {
			return fmt.Errorf("the tests fail as it is: %w\n%s", err, said)
		}
	}
	return nil
}

type result struct {
	by   string // the test that noticed, "" if none
	said string
	took time.Duration
}

func try(root string, m mutants.Mutant) (r result, err error) {
	undo, err := m.Apply(root)
	if err != nil {
		return r, fmt.Errorf("%s: %w", m.Rule, err)
	}
	started := time.Now()
	said, failed := test(root, m.Package(), m.Pattern(), patience)
	r = result{said: said, took: time.Since(started)}
	if err := undo(); err != nil {
		return r, err
	}
	if failed == nil {
		return r, nil
	}
	if r.by = noticed(said); r.by == "" {
		return r, fmt.Errorf("%s: no test failed, but: %w\n%s", m.Rule, failed, said)
	}
	return r, nil
}

var (
	failure = regexp.MustCompile(`(?m)^--- FAIL: (\S+)`)
	hanging = regexp.MustCompile(`(?m)^\t+(Test\S+) \(`)
)

// noticed is the first test that failed or hung. A mutant that does not compile is
// noticed by none.
func noticed(said string) string {
	if strings.Contains(said, "[build failed]") {
		return ""
	}
	if found := failure.FindStringSubmatch(said); found != nil {
		return found[1]
	}
	if found := hanging.FindStringSubmatch(said); found != nil && strings.Contains(said, "test timed out") {
		return found[1] + ", which hangs"
	}
	return ""
}

func test(root, dir, pattern string, limit time.Duration) (said string, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), 2*limit) // compiling included
	defer cancel()
	cmd := exec.CommandContext(ctx, "go", "test", "-count=1", "-failfast", "-timeout", limit.String(), "-run", pattern, dir)
	cmd.Dir = root
	cmd.WaitDelay = 10 * time.Second
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// copyTree copies the files of a repository, without its history and what was built.
func copyTree(from, to string) error {
	return filepath.WalkDir(from, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		target := filepath.Join(to, path)
		switch {
		case d.IsDir() && (d.Name() == ".git" || d.Name() == ".cache"):
			return fs.SkipDir
		case d.IsDir():
			return os.MkdirAll(target, 0o755)
		case !d.Type().IsRegular():
			return nil
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		return os.WriteFile(target, text, info.Mode().Perm())
	})
}
