from mobile_app.app import main

main()
