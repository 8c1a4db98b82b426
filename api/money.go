package api

import "suanli.dev/internal/money"

// Amount is a sum of money in millionths of the currency's major unit. Its JSON
// is a decimal string, such as "1.290000".
type Amount = money.Amount

// Rate is a price per unit in billionths of the major unit; decimal in JSON.
type Rate = money.Rate

// ParseAmount reads a decimal such as "12.50".
func ParseAmount(s string) (Amount, error) { return money.ParseAmount(s) }

// ParseRate reads a decimal such as "0.000125".
func ParseRate(s string) (Rate, error) { return money.ParseRate(s) }
