tune --coll broadcast
