package redlock_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"

	"github.com/gomodule/redigo/redis"

	"github.com/quorumlock/redlock"
	"github.com/quorumlock/redlock/internal/testutil"
	"github.com/quorumlock/redlock/redlocktest"
)

var errStale = errors.New("a later holder has written")

// setFenced stores a value under a key unless a later holder has: the highest token
// seen lies beside the value and is compared and written in the same step. Tokens stay
// below 2^53, where Lua numbers are exact.
var setFenced = redis.NewScript(1, `
if tonumber(ARGV[1]) < tonumber(redis.call('HGET', KEYS[1], 'token') or '0') then
  return 0
end
redis.call('HSET', KEYS[1], 'token', ARGV[1], 'value', ARGV[2])
return 1`)

func saveToRedis(ctx context.Context, c redis.Conn, key, value string) error {
	token, ok := redlock.TokenFromContext(ctx)
	if !ok {
		return errors.New("no lock is held")
	}
	written, err := redis.Bool(setFenced.Do(c, key, token, value))
	if err == nil && !written {
		err = errStale
	}
	return err
}

// A resource in Redis that refuses the writes of a holder whose lock has passed on.
func Example_fencedRedis() {
	server, err := testutil.Start() // the resource; any Redis
	if err != nil {
		fmt.Println(err)
		return
	}
	defer server.Close() //nolint:errcheck // an example
	c, err := server.Conn()
	if err != nil {
		fmt.Println(err)
		return
	}
	defer c.Close() //nolint:errcheck // an example

	twoHolders(func(ctx context.Context, text string) error { return saveToRedis(ctx, c, "report", text) })
	value, err := redis.String(c.Do("HGET", "report", "value"))
	fmt.Println(value, err)
	// Output:
	// second: <nil>
	// first, too late: a later holder has written
	// second's <nil>
}

// The same in SQL: the token is a column of the row, and the condition of every write.
// Where rows are created under the lock, too, let
//
//	INSERT … ON CONFLICT (id) DO UPDATE SET … WHERE reports.token <= excluded.token
//
// do both.
const updateFenced = `UPDATE reports SET body = ?, token = ? WHERE id = ? AND token <= ?`

// execer is *sql.DB, *sql.Conn or *sql.Tx.
type execer interface {
	ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error)
}

func saveToSQL(ctx context.Context, db execer, id int, body string) error {
	token, ok := redlock.TokenFromContext(ctx)
	if !ok {
		return errors.New("no lock is held")
	}
	done, err := db.ExecContext(ctx, updateFenced, body, token, id, token)
	if err != nil {
		return err
	}
	if rows, err := done.RowsAffected(); err != nil || rows == 0 {
		return errors.Join(errStale, err) // or there is no such row
	}
	return nil
}

// A resource in SQL that refuses the writes of a holder whose lock has passed on.
func Example_fencedSQL() {
	db := &oneRow{id: 7} // a *sql.DB
	twoHolders(func(ctx context.Context, text string) error { return saveToSQL(ctx, db, 7, text) })
	fmt.Println(db.body)
	// Output:
	// second: <nil>
	// first, too late: a later holder has written
	// second's
}

// twoHolders lets a first holder stand still until a second has had the lock.
func twoHolders(save func(ctx context.Context, text string) error) {
	nodes := redlocktest.NewNodes(3)
	r, err := redlock.New(nodes.Pools())
	if err != nil {
		panic(err)
	}
	defer r.Close(context.Background()) //nolint:errcheck // an example
	_ = r.Do(context.Background(), "report", func(first context.Context) error {
		// Something takes the lock from it, and it does not look.
		_ = r.Break(first, "report")
		_ = r.Do(context.Background(), "report", func(second context.Context) error {
			fmt.Println("second:", save(second, "second's"))
			return nil
		})
		fmt.Println("first, too late:", save(context.WithoutCancel(first), "first's"))
		return nil
	})
}

// oneRow stands for a database: it knows one statement.
type oneRow struct {
	id    int
	body  string
	token int64
}

func (r *oneRow) ExecContext(_ context.Context, query string, args ...any) (sql.Result, error) {
	if !strings.HasSuffix(query, "AND token <= ?") {
		return nil, errors.New("an unfenced write")
	}
	if args[2].(int) != r.id || r.token > args[3].(int64) {
		return affected(0), nil
	}
	r.body, r.token = args[0].(string), args[1].(int64)
	return affected(1), nil
}

type affected int64

func (affected) LastInsertId() (int64, error)   { return 0, errors.New("not known") }
func (n affected) RowsAffected() (int64, error) { return int64(n), nil }
