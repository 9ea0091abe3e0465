raise SystemExit("this module is broken on purpose")
